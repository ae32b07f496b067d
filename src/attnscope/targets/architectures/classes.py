"""Which model classes of transformers belong to a configuration class, best first."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

# Heads that run the whole architecture come first; heads that need labels or pooled rows, last.
_PREFERENCE: tuple[str, ...] = (
    "ForConditionalGeneration",
    "ForMaskedLM",
    "ForCausalLM",
    "LMHeadModel",
    "ForUniversalSegmentation",
    "ForObjectDetection",
    "ForDepthEstimation",
    "ForSemanticSegmentation",
    "ForSpeechToText",
    "ForTextToSpeech",
    "ForKeypointMatching",
    "ForPrediction",
    "ForCTC",
    "ForVideoClassification",
    "ForImageClassification",
    "ForPreTraining",
)


def model_classes(config_class: type[Any]) -> list[type[Any]]:
    """Return the runnable model classes whose configuration is `config_class`, best first.

    Raises ImportError when a modeling module needs a package that is not installed
    and no other module has a class for the configuration.
    """
    missing: ImportError | None = None
    found: list[type[Any]] = []
    package = importlib.import_module(config_class.__module__.rpartition(".")[0])
    for entry in pkgutil.iter_modules(package.__path__):
        if not entry.name.startswith("modeling_"):
            continue
        try:
            module = importlib.import_module(f"{package.__name__}.{entry.name}")
        except ImportError as error:
            missing = error
            continue
        found.extend(_classes_in(module, config_class))
    if not found:
        found = [entry for entry in _registered(config_class) if _runs(entry)]
    if not found and missing is not None:
        raise missing
    base = config_class.__name__.removesuffix("Config")
    return sorted(found, key=lambda model_class: _rank(model_class, base))


def _classes_in(module: Any, config_class: type[Any]) -> list[type[Any]]:
    from transformers import PreTrainedModel

    return [
        value
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, PreTrainedModel)
        and value.__module__ == module.__name__
        and getattr(value, "config_class", None) is config_class
        and "PreTrainedModel" not in value.__name__
        and _runs(value)
    ]


def _runs(model_class: type[Any]) -> bool:
    """Tell a class with a forward of its own from one that only generates or holds parts."""
    from torch import nn

    return inspect.unwrap(model_class.forward) is not inspect.unwrap(nn.Module.forward)


def _registered(config_class: type[Any]) -> list[type[Any]]:
    """Return what the auto classes hold for a configuration that borrows another's models."""
    from transformers.models.auto import modeling_auto

    found: list[type[Any]] = []
    for name in ("MULTIMODAL_LM", "SEQ_TO_SEQ_CAUSAL_LM", "CAUSAL_LM"):
        mapping = getattr(modeling_auto, f"MODEL_FOR_{name}_MAPPING", {})
        if config_class in mapping:
            found.append(mapping[config_class])
    if config_class in modeling_auto.MODEL_MAPPING:
        held: Any = modeling_auto.MODEL_MAPPING[config_class]
        found.extend(held if isinstance(held, list | tuple) else [held])
    return found


def _rank(model_class: type[Any], base: str) -> tuple[int, int]:
    name = model_class.__name__
    for place, ending in enumerate(_PREFERENCE):
        if name.endswith(ending):
            return place, len(name)
    if name in {f"{base}Model", base}:
        return len(_PREFERENCE), len(name)
    return len(_PREFERENCE) + 1, len(name)
