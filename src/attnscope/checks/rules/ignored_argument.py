"""AS208: a mask, cap, sink or length that was given changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule, Skipped

if TYPE_CHECKING:
    from attnscope.calls.call import Call
    from attnscope.calls.source import Source
    from attnscope.checks.masking.seen import Seen
    from attnscope.checks.masking.unused import Unused
    from attnscope.checks.probes.toggled_arguments import Toggled
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.lines import is_installed
    from attnscope.checks.masking.additive import additive_of
    from attnscope.checks.masking.unused import unused_arguments
    from attnscope.checks.probes.toggled_arguments import toggled_arguments
    from attnscope.checks.subject.libraries import is_of_library
    from attnscope.checks.subject.names import speaks_of_keys

    if not subject.calls and not additive_of(subject):
        raise Skipped("no attention was seen in the run")
    library = is_of_library(subject.run) and all(is_installed(c.source.file) for c in subject.calls)
    told: set[str] = set()
    toggled: list[Toggled] = []
    reason: Skipped | None = None
    try:
        toggled = toggled_arguments(subject)
    except Skipped as skipped:
        reason = skipped
    for each in toggled:
        if _is_ignored(subject, each) and (speaks_of_keys(each.name) or not library):
            told.add(each.name)
            yield _of_input(subject, each)
    own = list(unused_arguments(subject))
    for unused in own:
        if unused.name in told or _is_told_by_padding_leak(subject, unused.name):
            continue
        told.add(unused.name)
        yield _of_unused(unused)
    if reason is not None and not own:
        raise reason


def _is_ignored(subject: Subject, each: Toggled) -> bool:
    """Return whether nothing follows an argument, and no other rule says so."""
    return each.ignored and not (
        _speaks_of_unread(subject, each.name)
        or _moves_attention(subject, each.name)
        or _is_told_by_padding_leak(subject, each.name)
    )


def _of_unused(unused: Unused) -> Finding:
    """Return the finding for an argument that is never read; a note where none was given."""
    said = (
        f"is given {unused.name} ({unused.value}) and never reads it, so that it changes nothing"
        if unused.value is not None
        else f"takes {unused.name} and never reads it: one that is given will change nothing"
    )
    return RULE.found(
        f"{unused.function} {said} in the attention that it computes",
        {"argument": unused.name, "function": unused.function, "reads": 0},
        source=unused.source,
        call=unused.seen.call,
        severity=None if unused.value is not None else "note",
    )


def _speaks_of_unread(subject: Subject, name: str) -> bool:
    """Return whether an argument is the padding of a sequence that the model never reads."""
    from attnscope.checks.probes.memory_changed import memory_changed

    streams = {each.stream.name for each in subject.roles.padding if each.name == name}
    try:
        changes = memory_changed(subject) if streams else ()
    except Skipped:
        return False
    return any(c.is_still and not c.reads and c.stream.name in streams for c in changes)


def _is_told_by_padding_leak(subject: Subject, name: str) -> bool:
    """Return whether AS202 says it: padding that `expect` declares and that leaks."""
    from attnscope.checks.probes.padding_fills import padding_fills

    if not any(p.declared and p.name == name for p in subject.roles.padding):
        return False
    try:
        return any(fill.leaks and fill.padding.name == name for fill in padding_fills(subject))
    except Skipped:
        return False


def _of_input(subject: Subject, each: Toggled) -> Finding:
    line, call, where = _line(subject, each.name)
    return RULE.found(
        f"{each.name} changes nothing: {each.values} other values of it leave every output as "
        f"it was, to the last bit{where}",
        {"argument": each.name, "values": each.values, "largest": 0.0, "noise": 0.0},
        source=line,
        call=call,
        module=call.module if call is not None else "",
    )


def _line(subject: Subject, name: str) -> tuple[Source | None, Call | None, str]:
    """Return where it gets lost: a result that nobody reads, who left it out, or the softmax.

    The call is None where no call has the keys that a mask speaks of.
    """
    from torch import Tensor

    from attnscope.checks.lines import is_installed
    from attnscope.checks.masking.additive import additive_of
    from attnscope.checks.masking.lines import line_of_absent, line_of_softmax
    from attnscope.checks.masking.seen import seen_by

    dropped = _lost(subject, name)
    all_seen = [seen_by(subject, call) for call in subject.calls]
    if not all_seen:
        softmax = additive_of(subject)[0].softmax.source
        last = "; this line is the last that reads it"
        return dropped or softmax, None, last if dropped is not None else ""
    value = subject.given.values[name]
    size = value.shape[-1] if isinstance(value, Tensor) and value.dim() > 1 else None
    fits = [s for s in all_seen if size in {None, s.call.keys}]
    fits = [s for s in fits if _reads(subject, s, name)] or fits
    bare = [s for s in fits if not s.hides]
    seen = next(iter(bare or fits or [s for s in all_seen if not s.hides] or all_seen))
    call = seen.call if fits else None
    line, missing = line_of_absent(seen) if dropped is None else (dropped, None)
    if is_installed(line.file) and not is_installed(seen.call.source.file):
        return line_of_softmax(seen), call, "; this line of yours attends without it"
    if dropped is not None:
        return dropped, call, "; this line is the last that reads it"
    return line, call, f"; {missing} is left out here" if missing is not None else ""


def _reads(subject: Subject, seen: Seen, name: str) -> bool:
    """Return whether the keys of a call are made of the sequence that a mask speaks of."""
    from attnscope.checks.subject.padded import stream_of

    stream = stream_of(name, subject.given, subject.roles)
    spots = seen.course.located.spots.get("k", []) if seen.course is not None else []
    value = subject.input_value(stream.name) if stream is not None else None
    keys = tuple(each for each, _ in spots)
    behind = subject.base.tape.program.needed(keys, {})
    return value in {*keys, *(each for operation in behind for each in operation.needs)}


def _lost(subject: Subject, name: str) -> Source | None:
    """Return the last line that reads it: its result is read by nobody, or doesn't follow it."""
    alive, tape = _alive(subject, name), subject.base.tape
    last = None
    for operation in tape.operations:
        if alive.isdisjoint(operation.values()):
            continue
        made = [value for value in operation.defines if value in alive]
        if not made or not any(tape.users.get(value) for value in made):
            last = operation
    source = last.source if last is not None else None
    return source if source is not None and source.line else None


def _moves_attention(subject: Subject, name: str) -> bool:
    """Return whether attention reads it, and what it makes reaches no output (a gate of zero)."""
    spots = [each.spots.get("context", []) for each in subject.base.located]
    contexts = {value for each in spots for value, _ in each}
    return not contexts.isdisjoint(_alive(subject, name))


def _alive(subject: Subject, name: str) -> set[int]:
    """Return the values of the run that follow an argument, in float64."""
    from torch import Tensor

    from attnscope.checks.influence import moved
    from attnscope.checks.probes.toggled_arguments import other_values

    start = subject.input_value(name) if isinstance(subject.given.values[name], Tensor) else None
    if start is None:
        return set()
    found = {start}
    for other in other_values(subject, name):
        try:
            entries = moved(subject.base.tape, {start: other})
        except (RuntimeError, TypeError, ValueError, IndexError):
            continue
        found |= {value for value, which in entries.items() if bool(which.any())}
    return found


RULE = Rule(
    code="AS208",
    name="ignored-argument",
    severity="warning",
    what=(
        "A mask, a length, a window, a cap or positions are given, and nothing depends on them: "
        "not handed on, read by one branch only, or the result of a fill that isn't in place is "
        "dropped."
    ),
    why=(
        "Whoever calls the model believes that padding is hidden, or a window kept. Nothing "
        "raises, and the model computes something else."
    ),
    fix=(
        "Hand it on to every attention call, in every branch; keep the result: scores = "
        "scores.masked_fill(mask, fill). Take away arguments that are not used."
    ),
    proof=(
        "The argument is given other values, its opposite among them: every output stays as it "
        "was, bit for bit. Or a function around attention is given it and no line of that function "
        "reads it; where it takes one and was given none, that is a note."
    ),
    limits=(
        "A model of torch or transformers as it is may leave hints and positions unread: there "
        "masks and lengths alone are looked at. A value that the model refuses counts as read. One "
        "that is read elsewhere (for positions, say) but not by attention is seen only where a "
        "function of its own takes it."
    ),
    sources=(
        "https://github.com/pytorch/pytorch/issues/96941",
        "https://github.com/keras-team/keras/issues/23038",
        "https://github.com/jax-ml/jax/issues/32300",
    ),
    bad="""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x, mask):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = q @ k.transpose(1, 2) / x.shape[-1] ** 0.5
        scores.masked_fill(mask, float("-inf"))
        return scores.softmax(-1) @ v


model = Attention().eval()
inputs = {"x": torch.randn(2, 6, 32), "mask": torch.ones(6, 6, dtype=torch.bool).triu(1)}
""",
    good="""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x, mask):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = q @ k.transpose(1, 2) / x.shape[-1] ** 0.5
        scores.masked_fill_(mask, float("-inf"))
        return scores.softmax(-1) @ v


model = Attention().eval()
inputs = {"x": torch.randn(2, 6, 32), "mask": torch.ones(6, 6, dtype=torch.bool).triu(1)}
""",
    check=_check,
    explains=("AS903",),
)  # fmt: skip
