"""Building one model class from a tiny configuration and finding inputs that it runs with."""

from __future__ import annotations

import copy
import logging
import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from attnscope.targets.architectures.forms import image_forms
from attnscope.targets.architectures.inputs import make_inputs
from attnscope.targets.architectures.plan import Plan
from attnscope.targets.architectures.repair import repair
from attnscope.targets.architectures.shrink import shrink
from attnscope.targets.architectures.special import Special

MOST_PARAMETERS = 50_000_000
MOST_ATTEMPTS = 20
SPREAD = 0.02  # standard deviation of weights that no initialiser filled, BERT's own


@dataclass(frozen=True, slots=True)
class Wish:
    """What every candidate class is built with."""

    config_class: type[Any]
    special: Special
    attention: str | None
    seed: int


def attempt(model_class: type[Any], wish: Wish) -> tuple[Any, dict[str, Any]]:
    """Return the model, in eval mode, and the first inputs that it runs with.

    Raises what its constructor or, when no repair helps, its forward raised; ValueError when it
    stays too large.
    """
    config = shrink(wish.config_class())
    if wish.attention is not None:
        config._attn_implementation = wish.attention  # noqa: SLF001  its setter reaches every part
    model = _initialised(model_class, config, wish.seed)
    return model, fitting_inputs(model, wish.special, wish.seed)


def fitting_inputs(model: Any, special: Special, seed: int) -> dict[str, Any]:
    """Return the first keyword arguments that the forward of `model` runs with, without gradient.

    Raises the first exception of the forward when no repair helps.
    """
    import torch

    plan = Plan(config=model.config, model=model, dropped=set(special.skip))
    plan.image_form = image_forms(plan)[0]
    for attribute, value in special.plan.items():
        setattr(plan, attribute, copy.copy(value))
    first: Exception | None = None
    for _ in range(MOST_ATTEMPTS):
        try:
            inputs = make_inputs(plan, seed)
            torch.manual_seed(seed)
            with torch.no_grad():
                model(**inputs)
        except Exception as error:  # noqa: BLE001  the message decides what to change
            first = first or error
            if not repair(plan, error):
                break
        else:
            return inputs
    raise first if first is not None else RuntimeError("no inputs were tried")


def _initialised(model_class: type[Any], config: Any, seed: int) -> Any:
    """Return the model in eval mode; memory that no initialiser filled gets small numbers."""
    import torch

    count = _parameters(model_class, config)
    if count > MOST_PARAMETERS:
        raise ValueError(f"{count} parameters remain after shrinking, more than {MOST_PARAMETERS}")
    torch.manual_seed(seed)
    with _filled_memory():
        model = model_class(config)
    with torch.no_grad():
        for tensor in [*model.parameters(), *model.buffers()]:
            if tensor.is_floating_point() and bool(torch.isnan(tensor).any()):
                tensor.normal_(0.0, SPREAD)
    return model.float().eval()


def _parameters(model_class: type[Any], config: Any) -> int:
    """Return the number of parameters, counted without memory; 0 where that can't be done."""
    import torch

    with torch.device("meta"):
        try:
            outline = model_class(config)
        except Exception:  # noqa: BLE001  some constructors compute with real tensors
            return 0
    return sum(weight.numel() for weight in outline.parameters())


@contextmanager
def _filled_memory() -> Iterator[None]:
    """Fill fresh memory with NaN, so that what stays uninitialised can be told."""
    import torch

    before = torch.are_deterministic_algorithms_enabled()
    warn = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(mode=True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warn)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Keep every random state as it was, and silence what attempts that fail would print."""
    import numpy as np
    import torch

    drawn, sampled = random.getstate(), np.random.get_state()  # noqa: NPY002  what models use
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
        random.setstate(drawn)
        np.random.set_state(sampled)  # noqa: NPY002  the state that was there
