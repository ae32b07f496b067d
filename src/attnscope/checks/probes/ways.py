"""The ways that a model has to compute the same: its switches, arguments, modes."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

import torch
from torch import Tensor, nn

from attnscope.calls.held import version
from attnscope.checks.attributes import attribute
from attnscope.checks.rule import Skipped
from attnscope.checks.scoring.switches import Switch, switches_of, turned
from attnscope.checks.subject.given import Given
from attnscope.checks.subject.libraries import is_of_library
from attnscope.checks.subject.subject import Subject
from attnscope.differ.sides.side import Side

__all__ = ["TRAIN", "other_ways"]


_ASKED = re.compile(
    r"^(need_weights|output_attentions|return_(attn|attention|weights|attentions))$"
)


TRAIN = "train mode (nothing in it is random)"


_RANDOM = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._BatchNorm)  # noqa: SLF001  their families


_Way: TypeAlias = tuple[str, Callable[[], Tensor], Callable[[], Side]]
"""What is changed; how to get the output, and the run, of that way."""


def other_ways(subject: Subject) -> Iterator[_Way]:
    """Iterate over the ways that the author's model has beside the one of the base run."""
    if subject.model is None or is_of_library(subject.model):
        return
    for switch in switches_of(subject.model):
        yield _by_switch(subject, switch)
    for parameter in subject.given.parameters:
        value = subject.given.values.get(parameter.name, parameter.default)
        if _ASKED.match(parameter.name) and isinstance(value, bool):
            given = subject.given.with_values(**{parameter.name: not value})
            yield _by_argument(subject, f"{parameter.name}={not value}", given)
    if _is_alike_in_train(subject):
        yield (
            TRAIN,
            lambda: subject.main_output(train=True),
            lambda: subject.watched(subject.given, train=True),
        )


def _by_argument(subject: Subject, switch: str, given: Given) -> _Way:
    return switch, lambda: subject.main_output(given), lambda: subject.watched(given)


def _by_switch(subject: Subject, switch: Switch) -> _Way:
    def run() -> Tensor:
        with _turned(switch):
            return subject.main_output()

    def watched() -> Side:
        with _turned(switch):
            return subject.watched(subject.given)

    return str(switch), run, watched


@contextlib.contextmanager
def _turned(switch: Switch) -> Iterator[None]:
    """Turn a switch; what the author's own object refuses to be is no way to go."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(turned(switch))
        except (AttributeError, TypeError, ValueError) as error:
            raise Skipped(f"{switch} can't be set") from error
        yield


def _is_alike_in_train(subject: Subject) -> bool:
    """Return whether train mode may differ from eval mode in no known way."""
    if subject.model is None:
        return False
    if any(isinstance(m, _RANDOM) and attribute(m, "p", 1.0) for m in subject.model.modules()):
        return False
    if any(
        isinstance(v, torch.Generator) for m in subject.model.modules() for v in vars(m).values()
    ):
        return False  # it draws from a state of its own, which is put back before each run
    try:
        runs = [subject.main_output(train=True, seed=seed) for seed in (1, 2)]
        learns = _written(subject, subject.model, train=True)
        learns -= _written(subject, subject.model, train=False)
    except Skipped:
        return False
    return torch.equal(*runs) and not learns


def _written(subject: Subject, model: nn.Module, *, train: bool) -> set[str]:
    """Return the parameters and buffers that a run changes (a teacher's average, statistics)."""
    before, after = _state(model), {}
    handle = model.register_forward_hook(lambda *_: after.update(_state(model)))
    try:
        subject.raw(train=train)
    finally:
        handle.remove()
    return {name for name, seen in after.items() if before.get(name) != seen}


def _state(model: nn.Module) -> dict[str, tuple[int, int]]:
    """Return which tensor each parameter and buffer is, and how often it was written to."""
    named = (*model.named_parameters(), *model.named_buffers())
    return {name: (id(tensor), version(tensor)) for name, tensor in named}
