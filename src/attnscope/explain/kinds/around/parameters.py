"""Parameters that are used otherwise: transposed, reshaped, a bias left out or added twice."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from attnscope.explain.kinds.around.finding_norms import norm_segments
from attnscope.explain.kinds.around.sides import Edit, OwnPart
from attnscope.explain.reading.flow import CONTRACTIONS

__all__ = ["norm_parameters", "projection_bias", "weight_transposed"]

_ADDING = frozenset({*CONTRACTIONS, "add", "add_", "iadd"})


def projection_bias(side: OwnPart) -> Iterator[Edit]:
    """Propose a bias of a projection that is missing, doubled or subtracted."""
    for value, name in _biases(side):
        bias = side.flow.values[value]
        what = f"bias {name}".strip() + f" ({bias.numel()} entries, norm {float(bias.norm()):.4g})"
        missing = f"adds the {what} that the reference has not" if side.mends else f"{what} missing"
        yield side.given(
            "projection-bias", missing, value, torch.zeros_like(bias), at=name, way="none"
        )
        if not side.mends:
            yield side.given(
                "projection-bias", f"{what} added twice", value, 2 * bias, at=name, way="2"
            )
            yield side.given(
                "projection-bias", f"{what} subtracted", value, -bias, at=name, way="-"
            )


def _biases(side: OwnPart) -> Iterator[tuple[int, str]]:
    """Iterate over vectors that are added after a product with a matrix."""
    seen = set()
    for op in side.flow.operations:
        if op.name not in _ADDING:
            continue
        for value in op.needs:
            tensor = side.flow.values[value]
            if value in seen or value in side.flow.activations or not tensor.is_floating_point():
                continue
            named = _names(side, value)
            if named and tensor.squeeze().ndim == 1 and bool(tensor.any()):
                seen.add(value)
                yield value, named[0]


def _names(side: OwnPart, value: int) -> list[str]:
    """Return the parameters that a value is a view or a piece of."""
    named = side.part.parameters
    if value in named:
        return [named[value]]
    op = side.flow.maker.get(value)
    if op is None or any(need not in named for need in op.needs):
        return []
    return [named[need] for need in op.needs]


def weight_transposed(side: OwnPart) -> Iterator[Edit]:
    """Propose a weight that is used transposed, or reshaped where it is transposed."""
    for value, name in side.matrices():
        weight = side.flow.values[value]
        for how, other in _turned(weight).items():
            text = f"weight {name} {tuple(weight.shape)} used {how}"
            yield side.given("weight-transposed", text, value, other, at=name, way=how)


def _turned(weight: Tensor) -> dict[str, Tensor]:
    rows, columns = weight.shape
    if rows == columns:
        return {"transposed": weight.mT}
    found = {
        "reshaped instead of transposed": weight.reshape(columns, rows).mT,
        "reshaped instead of as it is": weight.mT.reshape(rows, columns),
    }
    if rows % columns == 0:
        blocks = weight.view(-1, columns, columns).mT.reshape(rows, columns)
        found[f"transposed in each of its {rows // columns} blocks"] = blocks
    if columns % rows == 0:
        blocks = weight.view(rows, -1, rows).permute(2, 1, 0).reshape(rows, columns)
        found[f"transposed in each of its {columns // rows} blocks"] = blocks
    return found


def norm_parameters(side: OwnPart) -> Iterator[Edit]:
    """Propose a norm whose weight is counted from one, or whose weight or bias is left out."""
    read = {v for segment in norm_segments(side) for op in segment.operations for v in op.needs}
    for value, name in side.part.parameters.items():
        weight = side.flow.values[value] if value in side.flow.leaves and value in read else None
        if weight is None or weight.ndim != 1 or not weight.is_floating_point():
            continue
        what = f"{name} ({weight.numel()} entries)"
        ways = {f"{what} left out": 0 * weight, f"{what} left out, 1 in its place": 0 * weight + 1}
        if not side.mends:
            ways |= {
                f"1 + {what} used where the reference has the weight itself": weight + 1,
                f"{what} used where the reference has 1 + weight": weight - 1,
            }
        for way, (text, other) in enumerate(ways.items()):
            told = text.replace("left out", "used where the reference has none")
            told = told if side.mends else text
            yield side.given("norm-weight", told, value, other, at=name, way=str(way))
