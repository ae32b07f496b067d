"""The operation in or around attention at which the samples of a batch first mix."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from attnscope.calls.call import Call
from attnscope.calls.program import Operation
from attnscope.checks.course import HIDING, SOFTMAXES, course_of
from attnscope.checks.influence import Allowed, first_mixing, moved
from attnscope.checks.probes.batch_mates import BatchMates, with_other_sample
from attnscope.checks.probes.coded import Coded
from attnscope.checks.subject.subject import Subject
from attnscope.differ.sides.located import Located

__all__ = ["Mixing", "keys_are_tokens", "where_samples_mix"]

_STATISTICS = frozenset(
    "mean std var std_mean var_mean amax amin aminmax max min median quantile norm vector_norm "
    "matrix_norm sum nansum logsumexp batch_norm instance_norm group_norm layer_norm "
    "rms_norm".split()
)
"""Numbers taken over an axis: a scale that depends on other samples is a fault of another kind."""

_KERNELS = frozenset({"scaled_dot_product_attention", "flex_attention"})


@dataclass(frozen=True, slots=True)
class Mixing:
    """The operation that mixes samples, and the call that it is a part of."""

    operation: Operation
    call: Call

    @property
    def is_softmax(self) -> bool:
        """Whether it normalises scores."""
        return self.operation.name in SOFTMAXES


def where_samples_mix(subject: Subject, mates: BatchMates) -> Mixing | None:
    """Return where other samples begin to move when one is changed; None: in no attention."""
    tape, other = subject.base.tape, with_other_sample(subject, mates.changed)
    changed = {}
    for stream in subject.roles.streams:
        value = subject.input_value(stream.name)
        if value is not None and stream.batch_axis is not None:
            changed[value] = other.values[stream.name]
    samples = torch.arange(mates.stream.batch(subject.given))
    entries = moved(tape, changed)
    operation = first_mixing(tape, entries, Allowed(samples == mates.changed))
    if operation is None or operation.name in _STATISTICS | HIDING:
        return None
    for located in subject.base.located:
        if any(each is operation for each in _around(subject, located)):
            own = {value for spots in located.spots.values() for value, _ in spots}
            masks = [entries[v] for v in operation.values() if v in entries and v not in own]
            if operation.name in _KERNELS and any(bool(each.any()) for each in masks):
                return None  # a mask that meets the wrong samples
            return Mixing(operation, located.call)
    return None


def _around(subject: Subject, located: Located) -> tuple[Operation, ...]:
    """Return the operations from what a call's projections receive to its output.

    Those that make masks and biases are left out.
    """
    course = course_of(subject, located.call)
    inside, aside = (course.main, course.aside) if course is not None else ((), ())
    tape, output = subject.base.tape, located.output
    if output is None or not located.received:
        return inside
    held = {value: tape.tensors[value] for value in located.received.values()}
    masks = {id(each) for each in aside}
    around = tape.program.needed((output,), held)
    return (*inside, *(each for each in around if id(each) not in masks))


def keys_are_tokens(coded: Coded) -> bool:
    """Return whether different tokens of one sample are different keys of a row."""
    own = [each.entries for each in coded.landings.get("k", ()) if each.token[0] == 0]
    if len(own) < 2:
        return False
    first, second = own[0], own[1]
    rows = first.any(-1) & second.any(-1)
    return bool(rows.any()) and not bool((first & second).any())
