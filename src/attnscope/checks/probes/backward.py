"""One backward of a fixed random cotangent, in eval mode: what receives a gradient."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from attnscope.checks.probe import probe
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.subject import Subject

__all__ = ["Backward", "backward", "gradient_sizes"]


@dataclass(frozen=True, slots=True, eq=False)
class Backward:
    """Gradients of one backward; None: autograd has no way to it.

    values: of values of the tape of the base run (q, k and v of its calls); parameters: of all
    parameters that are to be trained, by name.
    """

    values: Mapping[int, Tensor | None] = field(default_factory=dict)
    parameters: Mapping[str, Tensor | None] = field(default_factory=dict)


@probe
def backward(subject: Subject) -> Backward:
    """Run one backward through the graph of the base run; nothing is accumulated anywhere.

    Raises:
        Skipped: nothing is to be trained, no output has a gradient, or the backward raises.
    """
    outputs = [each for each in subject.base.outputs.values() if each.requires_grad]
    if not outputs:
        raise Skipped("no output has a gradient: the model runs under no_grad, or is all frozen")
    model: nn.Module | None = subject.model
    trained = {} if model is None else _trained(model)
    if model is not None and not trained:
        raise Skipped("all parameters are frozen (requires_grad=False)")
    values = [
        v
        for each in subject.base.located
        for n in ("q", "k", "v")
        for v, _ in each.spots.get(n, [])
    ]
    tensors = subject.base.tape.tensors
    wanted = [(v, tensors[v]) for v in dict.fromkeys(values) if tensors[v].requires_grad]
    loss = _weighted(outputs)
    asked = [*(t for _, t in wanted), *trained.values()]
    try:
        found = torch.autograd.grad(loss, asked, allow_unused=True, retain_graph=True)
    except Exception as error:
        text = " ".join(str(error).split())[:200]
        raise Skipped(f"the backward raised {type(error).__name__}: {text}") from error
    dense = [_dense(each) for each in found]
    known: dict[int, Tensor | None] = dict.fromkeys(values)
    known |= dict(zip((v for v, _ in wanted), dense, strict=False))
    return Backward(known, dict(zip(trained, dense[len(wanted) :], strict=True)))


def _dense(gradient: Tensor | None) -> Tensor | None:
    """Return a gradient with all of its entries: those of sparse tables hold the rows read."""
    if gradient is None or gradient.layout in {torch.strided, torch.jagged}:
        return gradient
    return gradient.to_dense()


def _trained(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def gradient_sizes(
    outputs: Iterable[Tensor], parameters: Mapping[str, nn.Parameter]
) -> dict[str, float]:
    """Return the largest entry of each parameter's gradient in a run of its own; 0.0: it gets none.

    Nothing where no output has a gradient.

    Raises:
        Skipped: the backward raises.
    """
    learning = [each for each in outputs if each.requires_grad]
    if not learning:
        return {}
    try:
        found = torch.autograd.grad(
            _weighted(learning), list(parameters.values()), allow_unused=True
        )
    except RuntimeError as error:
        raise Skipped(f"the backward raised {error}") from error
    dense = zip(parameters, map(_dense, found), strict=True)
    return {n: float(g.abs().max()) if g is not None and g.numel() else 0.0 for n, g in dense}


def _weighted(outputs: Iterable[Tensor]) -> Tensor:
    """Return the outputs weighted by fixed random numbers, summed."""
    generator = torch.Generator().manual_seed(0)
    total = torch.zeros((), dtype=torch.float64)
    for output in outputs:
        cotangent = torch.randn(output.shape, generator=generator, dtype=torch.float64)
        finite = output.double().nan_to_num(0.0, 0.0, 0.0)
        total = total + (finite * cotangent.to(output.device)).sum().cpu()
    return total
