"""The matrix of inputs: the same comparison where batch, length, padding or type are others.

Every case is one that a correct port of the reference has to satisfy: the same inputs with fewer
or more samples and tokens, padding where both sides take a mask, parameters in another type, the
other mode where nothing drops. What a side refuses is a limit of it and no difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from torch import Tensor

from attnscope.differ.cases.decoding import decoding_cases
from attnscope.differ.cases.input_axes import Padding, padding_of
from attnscope.differ.cases.made import plain_cases
from attnscope.differ.cases.on_copies import other_mode, types
from attnscope.differ.cases.trial import Trial, attempt, unmade
from attnscope.differ.cases.varying import Arrangement, arrange
from attnscope.differ.result import Case
from attnscope.differ.sides.caches import emptied
from attnscope.differ.sides.outputs import outputs_of
from attnscope.differ.sides.subject import Inputs, Subject
from attnscope.errors import InputError

if TYPE_CHECKING:
    from attnscope.differ.comparison import Comparison

__all__ = ["cases", "trials"]

_MOST_TOKENS = 256
"""Lengths above this are not made to show a window."""


def cases(comparison: Comparison, *, declared: bool) -> Iterator[Case]:
    """Iterate over the cases that the inputs allow; see `trials`."""
    for trial in trials(comparison, declared=declared):
        yield trial.case


def trials(comparison: Comparison, *, declared: bool) -> Iterator[Trial]:
    """Iterate over the cases that the inputs allow, each with its first difference.

    Args:
        comparison: of two sides that agree on its inputs. Where `expect` says that a module keeps
            its cache itself, on subjects that nothing was run with.
        declared: somebody gave the inputs. Then no length is tried that goes beyond them, unless
            a window is declared, and plain functions keep the shapes that they were given.
    """
    forward = _forward_alone(comparison)
    if comparison.reference.is_plain and comparison.candidate.is_plain:
        yield from plain_cases(forward, declared=declared)
        return
    arranged = arrange(_by_name(forward), forward.reference, forward.options.expect)
    if arranged.refusal:
        yield unmade("other inputs", arranged.refusal)
    else:
        yield from _batches(forward, arranged)
        yield from _lengths(forward, arranged, declared=declared)
        yield from _paddings(forward, arranged, declared=declared)
    yield from types(forward, arranged)
    yield from other_mode(forward, arranged)
    if not arranged.refusal:
        yield from decoding_cases(forward, arranged)


def _forward_alone(comparison: Comparison) -> Comparison:
    other = comparison.on(comparison.inputs)
    other.options = replace(comparison.options, gradients=False)
    return other


def _by_name(comparison: Comparison) -> Inputs:
    """Return positional inputs by name, where both sides have the same names."""
    inputs = comparison.inputs
    if isinstance(inputs, Mapping):
        return inputs
    count = len(inputs)
    both = [
        [parameter.name for parameter in side.parameters_of_run()][:count]
        for side in (comparison.candidate, comparison.reference)
    ]
    if both[0] == both[1] and len(both[0]) == count and count > 1:
        return dict(zip(both[0], inputs, strict=True))
    return inputs


def _on(comparison: Comparison, inputs: Inputs) -> Comparison:
    """Return the comparison on other inputs, and on modules with empty caches."""
    other = comparison.on(inputs)
    expect = comparison.options.expect
    other.candidate = emptied(comparison.candidate, expect)
    other.reference = emptied(comparison.reference, expect)
    return other


def _real(comparison: Comparison, inputs: Inputs) -> Tensor | None:
    return arrange(inputs, comparison.reference, comparison.options.expect).real


def _try(name: str, comparison: Comparison, inputs: Inputs) -> Trial:
    return attempt(name, _on(comparison, inputs), _real(comparison, inputs))


# -- samples and tokens --------------------------------------------------------------------------


def _batches(comparison: Comparison, arranged: Arrangement) -> Iterator[Trial]:
    if not arranged.batch_axes:
        return
    if arranged.batch > 1:
        yield _try("one sample", comparison, arranged.samples([0]))
    yield _try(f"{arranged.batch + 1} samples", comparison, arranged.one_more())


def _lengths(comparison: Comparison, arranged: Arrangement, *, declared: bool) -> Iterator[Trial]:
    for place, length in enumerate(arranged.lengths):
        wanted = [1, 2, (length + 1) // 2] if not place else [(length + 1) // 2]
        for count in sorted({count for count in wanted if 0 < count < length}):
            name = f"length {count}" if not place else f"length {count} instead of {length}"
            inputs = arranged.shorter(count, length)
            if inputs is None:
                yield unmade(name, "a sample would have no real token")
            else:
                yield _try(name, comparison, inputs)
    longer = _longer(comparison, arranged.length, declared=declared)
    inputs = arranged.longer(longer) if longer else None
    if inputs is not None:
        yield _try(f"length {longer}", comparison, inputs)


def _longer(comparison: Comparison, length: int, *, declared: bool) -> int:
    """Return a length beyond the given one that is worth a case; 0: none.

    Inputs that somebody gave are a statement about lengths; a window that was declared asks for
    one that shows it.
    """
    expect = comparison.options.expect
    config = getattr(comparison.reference.model, "config", None)
    if not length or (declared and "window" not in expect):
        return 0
    wanted = 0 if declared else 2 * length + 1
    said = expect.get("window") or getattr(config, "sliding_window", None)
    sizes = said if isinstance(said, list | tuple) else [said]
    window = max((size for size in sizes if isinstance(size, int)), default=0)
    if window and window + 3 <= _MOST_TOKENS:
        wanted = max(wanted, window + 3)
    names = ("max_position_embeddings", "n_positions", "max_seq_len")
    known = [found for name in names if isinstance(found := getattr(config, name, None), int)]
    wanted = min([wanted, *known])
    return wanted if wanted > length else 0


# -- padding -------------------------------------------------------------------------------------


def _paddings(comparison: Comparison, arranged: Arrangement, *, declared: bool) -> Iterator[Trial]:
    padding = _padding(comparison, arranged)
    if padding is None or arranged.length < 2 or not arranged.batch_axes:
        return
    name = str(arranged.names.get(padding.key, padding.key))
    deaf = [s.name for s in (comparison.candidate, comparison.reference) if not _takes(s, name)]
    shown = arranged.padding_sides
    for side in ("right", "left"):
        if declared and shown and side not in shown:
            continue
        if deaf:
            yield unmade(f"padding {side}", f"{' and '.join(deaf)} takes no {name}")
            continue
        inputs = arranged.padded(padding, left=side == "left", filler=_pad_id(comparison))
        trial = _try(f"padding {side}", comparison, inputs)
        if trial.case.equal is False and side == "left":
            trial = _by_itself(trial, comparison, inputs)
        yield trial


def _padding(comparison: Comparison, arranged: Arrangement) -> Padding | None:
    """Return the mask to be used: one of the inputs, or a declared one that can be added."""
    if arranged.padding is not None:
        return arranged.padding
    expect = comparison.options.expect
    if padding_of(arranged.values, arranged.names, expect) is not None:
        return None
    name, _, meaning = str(expect.get("padding") or "").partition(" ")
    if meaning not in {"keep", "drop"} or not isinstance(arranged.inputs, Mapping):
        return None
    return Padding(name, meaning == "keep")


def _takes(side: Subject, name: str) -> bool:
    parameters = side.parameters_of_run()
    return any(p.name == name or p.kind is p.VAR_KEYWORD for p in parameters)


def _pad_id(comparison: Comparison) -> int | None:
    config = getattr(comparison.reference.model, "config", None)
    known = getattr(config, "pad_token_id", None)
    return known if isinstance(known, int) and known >= 0 else None


def _by_itself(trial: Trial, comparison: Comparison, inputs: Inputs) -> Trial:
    """Excuse a candidate whose real tokens do not feel the padding, where the reference's do."""
    real = _real(comparison, inputs)
    if real is None:
        return trial
    sides = comparison.candidate, comparison.reference
    try:
        feels = [_feels(side, comparison, inputs, real) for side in sides]
    except InputError:  # a side that takes no shorter text
        return trial
    if feels == [False, True]:
        why = (
            f"{comparison.reference.name} gives real tokens other outputs behind padding, "
            f"{comparison.candidate.name} does not"
        )
        return unmade(trial.case.name, why)
    return trial


def _feels(side: Subject, comparison: Comparison, inputs: Inputs, real: Tensor) -> bool:
    """Return whether the last sample's real tokens depend on the padding before them."""
    arranged = arrange(inputs, comparison.reference, comparison.options.expect)
    last, start = real.shape[0] - 1, int((~real[-1]).sum())
    alone = arrange(arranged.samples([last]), comparison.reference, comparison.options.expect)
    shorter = alone.window(start, alone.length)
    outputs = []
    for given in (alone.inputs, shorter):
        seen = comparison.on(given).observed(emptied(side, comparison.options.expect))
        outputs.append(seen.wide_output(next(iter(outputs_of(seen.output).values()))))
    if outputs[0].dim() < 2 or outputs[0].shape[1] != alone.length:
        return True
    gap = (outputs[0][:, start:] - outputs[1]).abs().max()
    return bool(gap > 1e-4 * outputs[1].abs().max())
