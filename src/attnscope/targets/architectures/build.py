"""The public face: naming the architectures and building one of them, ready to run."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attnscope.errors import TargetError
from attnscope.targets.architectures.classes import model_classes
from attnscope.targets.architectures.special import NOTHING, SPECIAL
from attnscope.targets.architectures.trial import Wish, attempt, undisturbed

if TYPE_CHECKING:
    from torch import nn

MOST_CLASSES = 5
MOST_WORDS = 300  # letters of another library's message that are passed on


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

    The model has run once with the inputs before it is returned. The same `seed` gives the same
    weights and inputs; every global random state is left as it was.

    Args:
        name: a model type of transformers, as in `architectures()`.
        attn_implementation: "eager", "sdpa" ...; None leaves the choice to the model.
        seed: of the weights and the inputs.
        train: leave the model in train mode.

    Raises:
        TargetError: the name is unknown, a package is missing, or no model class of the
            architecture could be built small and run.

    Example:
        >>> built = build("llama")
        >>> built.model(**built.inputs).logits.shape
        torch.Size([2, 11, 128])
    """
    doing = f"building the architecture {name}"
    config_class = _config_class(name, doing)
    special = SPECIAL.get(name, NOTHING)
    wish = Wish(config_class, special, attn_implementation, seed)
    failures: list[str] = []
    for model_class in _candidates(config_class, special.prefer, doing):
        try:
            with undisturbed():
                model, inputs = attempt(model_class, wish)
        except ImportError as error:
            raise _missing_package(doing, error) from error
        except Exception as error:  # noqa: BLE001  any failure of a candidate means: the next
            told = f"{type(error).__name__}: {str(error)[:MOST_WORDS]}"
            failures.append(f"{model_class.__name__} raised {told}")
            continue
        return Built(name, model.train(train), inputs, model_class.__name__, model.config)
    todo = "build the model and its inputs in a file of your own"
    raise TargetError(doing, "; ".join(failures), todo)


def _config_class(name: str, doing: str) -> type[Any]:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    if name not in CONFIG_MAPPING:
        close = difflib.get_close_matches(name, list(CONFIG_MAPPING), n=5, cutoff=0.5)
        todo = f"did you mean {', '.join(close)}?" if close else "see architectures() for the names"
        raise TargetError(doing, f"transformers has no model type {name!r}", todo)
    found: type[Any] = CONFIG_MAPPING[name]
    return found


def _candidates(config_class: type[Any], prefer: str, doing: str) -> list[type[Any]]:
    """Return the model classes to try, best first."""
    try:
        candidates = model_classes(config_class)
    except ImportError as error:
        raise _missing_package(doing, error) from error
    if not candidates:
        raise TargetError(
            doing,
            f"no model of {config_class.__name__} has a forward: "
            "it is a part of other models, or only generates",
            "name an architecture that contains it, or one of its parts",
        )
    candidates.sort(key=lambda candidate: candidate.__name__ != prefer)
    return candidates[:MOST_CLASSES]


def _missing_package(doing: str, error: ImportError) -> TargetError:
    named = re.search(r"requires the (\S+) library", str(error))
    package = named[1] if named else error.name or str(error).strip().splitlines()[0]
    return TargetError(doing, f"the package {package} is not installed", f"install {package}")
