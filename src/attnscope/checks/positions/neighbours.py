"""Operations that know a token's neighbours from others: order matters to them by itself."""

from __future__ import annotations

from attnscope.calls.program import Operation
from attnscope.checks.residual.graph import contents, needed_by_outputs, reached
from attnscope.checks.subject.subject import Subject

__all__ = ["knows_neighbours", "meet_neighbours", "of_single_tokens"]

_LEARNED = ("conv", "lstm", "gru", "rnn")
_MIXING = (*_LEARNED, "cumsum", "roll", "unfold", "avg_pool", "cumprod", "diff")


def knows_neighbours(subject: Subject) -> bool:
    """Return whether something else than attention knows neighbours from others."""
    return any(_mixes(subject, each) for each in subject.base.tape.operations)


def meet_neighbours(subject: Subject, parts: list[str]) -> bool:
    """Return whether a positional part is the kernel of a convolution, or of a recurrence.

    Alike tokens can't show what it does, since they are alike among their neighbours, too.
    """
    tape, moving, needed = subject.base.tape, contents(subject), needed_by_outputs(subject)
    read = [v for v, name in subject.base.parameters.items() if name in parts]
    kernels = reached(tape, read) - moving
    return any(
        each.name.startswith(_LEARNED)
        and not moving.isdisjoint(each.values())
        and not kernels.isdisjoint(each.values())
        and not needed.isdisjoint(each.defines)
        and _mixes(subject, each)
        for each in tape.operations
    )


def of_single_tokens(subject: Subject) -> set[str]:
    """Return the parameters of layers that take each token by itself: they hold no places."""
    tape, moving, names = subject.base.tape, contents(subject), subject.base.parameters
    return {
        names[value]
        for each in tape.operations
        if each.name == "linear" or (each.name.startswith("conv") and not _mixes(subject, each))
        if not moving.isdisjoint(each.values())
        for value in each.values()
        if value in names
    }


def _mixes(subject: Subject, operation: Operation) -> bool:
    if not operation.name.startswith(_MIXING):
        return False
    if not operation.name.startswith("conv"):
        return True
    tape, weights = subject.base.tape, subject.base.weights
    kernel = next((tape.tensors[v] for v in operation.values() if v in weights), None)
    return kernel is None or any(size > 1 for size in kernel.shape[2:])
