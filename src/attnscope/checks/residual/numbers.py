"""Parameters that leave PyTorch on the way: what is made of them comes back as plain numbers."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn

from attnscope.calls.source import Source
from attnscope.checks.definitions import read_at
from attnscope.checks.probes.backward import backward
from attnscope.checks.probes.toggled_parameters import moved_by_parameters
from attnscope.checks.residual.cutting import Cut
from attnscope.checks.residual.graph import needed_by_outputs, reached
from attnscope.checks.residual.owning import attending, own_parameters
from attnscope.checks.subject.subject import Subject

__all__ = ["left_parameters"]


def left_parameters(subject: Subject) -> Iterator[Cut]:
    """Iterate over parameters that move the output and that autograd and the tape lose sight of."""
    model = subject.model
    if model is None:
        return
    found, needed = backward(subject), needed_by_outputs(subject)
    values = {name: value for value, name in subject.base.parameters.items()}
    sizes = {n: _largest(g) for n, g in found.parameters.items() if g is not None}
    for owner in attending(subject, model):
        names = [name for name in own_parameters(model, owner) if name in found.parameters]
        fed = max((sizes.get(name, 0.0) for name in names), default=0.0)
        groups: dict[str, list[str]] = {}
        for name in names:
            if name not in sizes and values.get(name) not in needed:
                attribute = name.removeprefix(f"{owner}." if owner else "").split(".")[0]
                groups.setdefault(attribute, []).append(name)
        for attribute, lost in groups.items() if fed else ():
            source = _line(
                subject, model, owner, attribute, [values[n] for n in lost if n in values]
            )
            if source is not None and moved_by_parameters(subject, lost) > 0.0:
                yield Cut("a plain number", source, tuple(lost), fed)


def _largest(gradient: Tensor) -> float:
    return float(gradient.abs().max()) if gradient.numel() else 0.0


def _line(
    subject: Subject, model: nn.Module, owner: str, attribute: str, values: list[int]
) -> Source | None:
    """Return where they are last seen; None: as an index or a condition, which chooses."""
    tape = subject.base.tape
    after = reached(tape, values)
    last = [op for op in tape.operations if not after.isdisjoint(op.defines)]
    if last:
        made = tape.tensors[last[-1].defines[0]]
        return last[-1].source if made.is_floating_point() else None
    return read_at(model.get_submodule(owner), attribute)
