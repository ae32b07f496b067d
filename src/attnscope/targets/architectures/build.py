"""The public face: naming the architectures and building one of them, ready to run."""

from __future__ import annotations

import difflib
import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attnscope.errors import TargetError
from attnscope.targets.architectures.classes import model_classes
from attnscope.targets.architectures.inputs import make_inputs
from attnscope.targets.architectures.plan import Plan
from attnscope.targets.architectures.repair import image_forms, repair
from attnscope.targets.architectures.shrink import shrink
from attnscope.targets.architectures.special import NOTHING, SPECIAL, Special

if TYPE_CHECKING:
    from torch import nn

MOST_PARAMETERS = 50_000_000
MOST_CLASSES = 5
MOST_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Built:
    """A tiny model of one architecture and keyword arguments that its forward accepts.

    `model` is in eval mode unless training was asked for; `config` is the shrunk configuration.
    """

    name: str
    model: nn.Module
    inputs: dict[str, Any]
    model_class: str
    config: Any


def architectures() -> tuple[str, ...]:
    """Return every model type that the installed transformers knows, sorted."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    return tuple(sorted(CONFIG_MAPPING))


def build(
    name: str, *, attn_implementation: str | None = None, seed: int = 0, train: bool = False
) -> Built:
    """Build the architecture `name`, tiny and randomly initialised, with inputs that run.

    The same `seed` gives the same weights and inputs; the global random state is left as it was.

    Args:
        name: a model type of transformers, as in `architectures()`.
        attn_implementation: "eager", "sdpa" ...; None leaves the choice to the model.
        seed: of the weights and the inputs.
        train: leave the model in train mode.

    Raises:
        TargetError: the name is unknown, a package is missing, or no model class of the
            architecture could be built small and run.
    """
    import torch

    doing = f"building the architecture {name}"
    config_class = _config_class(name, doing)
    special = SPECIAL.get(name, NOTHING)
    try:
        candidates = model_classes(config_class)
    except ImportError as error:
        raise _missing_package(doing, error) from error
    if not candidates:
        raise TargetError(
            doing,
            f"no model of {config_class.__name__} has a forward: it is a part of others, or only generates",
            "name an architecture that contains it or that it contains",
        )
    candidates.sort(key=lambda candidate: candidate.__name__ != special.prefer)
    failures: list[str] = []
    with torch.random.fork_rng(devices=[]), _quiet():
        for model_class in candidates[:MOST_CLASSES]:
            try:
                model, inputs = _attempt(model_class, config_class, special, attn_implementation, seed)
            except ImportError as error:
                raise _missing_package(doing, error) from error
            except Exception as error:  # noqa: BLE001 - any failure of a candidate means: try the next
                failures.append(f"{model_class.__name__}: {type(error).__name__}: {error}")
                continue
            model.train(train)
            return Built(name, model, inputs, model_class.__name__, model.config)
    raise TargetError(doing, "; ".join(failures), "build the model and its inputs in a file of your own")


def _config_class(name: str, doing: str) -> type[Any]:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    if name not in CONFIG_MAPPING:
        close = difflib.get_close_matches(name, list(CONFIG_MAPPING), n=5, cutoff=0.5)
        found = f"transformers has no model type {name!r}"
        raise TargetError(doing, found, f"try one of: {', '.join(close)}" if close else "check the name")
    found_class: type[Any] = CONFIG_MAPPING[name]
    return found_class


def _missing_package(doing: str, error: ImportError) -> TargetError:
    named = re.search(r"requires the (\S+) library", str(error))
    package = named[1] if named else error.name or str(error).strip().splitlines()[0]
    return TargetError(doing, f"the package {package} is not installed", f"pip install {package}")


def _attempt(
    model_class: type[Any], config_class: type[Any], special: Special, attention: str | None, seed: int
) -> tuple[Any, dict[str, Any]]:
    """Return the model and the first inputs that it runs with."""
    import torch

    config = shrink(config_class())
    if attention is not None:
        config._attn_implementation = attention
    model = _initialised(model_class, config, seed)
    plan = Plan(config=model.config, model=model, dropped=set(special.skip))
    plan.image_form = image_forms(plan)[0]
    for attribute, value in special.plan.items():
        setattr(plan, attribute, value)
    first: Exception | None = None
    for _ in range(MOST_ATTEMPTS):
        try:
            inputs = make_inputs(plan, seed)
            torch.manual_seed(seed)
            with torch.no_grad():
                model(**inputs)
        except Exception as error:  # noqa: BLE001 - the message decides what to change
            first = first or error
            if not repair(plan, error):
                break
        else:
            return model, inputs
    raise first if first is not None else RuntimeError("no inputs were tried")


def _initialised(model_class: type[Any], config: Any, seed: int) -> Any:
    """Return the model in eval mode; memory that no initialiser filled gets small numbers."""
    import torch

    with torch.device("meta"):
        try:
            outline = model_class(config)
        except Exception:  # noqa: BLE001 - some constructors compute with real tensors
            outline = None
    count = sum(weight.numel() for weight in outline.parameters()) if outline is not None else 0
    if count > MOST_PARAMETERS:
        raise ValueError(f"{count} parameters remain after shrinking, more than {MOST_PARAMETERS}")
    torch.manual_seed(seed)
    with _filled_memory():
        model = model_class(config)
    with torch.no_grad():
        for tensor in [*model.parameters(), *model.buffers()]:
            if tensor.is_floating_point() and bool(torch.isnan(tensor).any()):
                tensor.normal_(0.0, 0.02)
    return model.float().eval()


@contextmanager
def _filled_memory() -> Iterator[None]:
    """Fill fresh memory with NaN, so that what stays uninitialised can be told."""
    import torch

    before = torch.are_deterministic_algorithms_enabled()
    warn = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warn)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the warnings and log lines of attempts that are expected to fail."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
