"""Reads scale and soft cap from what some rows of scores answer to raw scores of our own choice."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.calls.broadcasting import collapse
from attnscope.capture.reading.probe import Probe, differs

__all__ = ["Sample", "narrow", "read_scale"]

_STEPS = 8
_SATURATED = 20.0  # tanh(20) is 1 in float64


@dataclass(frozen=True, slots=True)
class Sample:
    """Answers of some rows, (batch, heads, rows, keys): enough to tell scale and cap."""

    rows: Tensor
    additive: Tensor
    step: Tensor  # half the difference of the answers to 1 and -1
    far: Tensor  # the answer to a large raw, less the additive part
    known: Tensor  # neither hidden nor overwritten: these tell the scale
    slack: Tensor  # how far `step`, `far` and `additive` may be off


def read_scale(
    probe: Probe, sample: Sample
) -> tuple[float | Tensor | None, float | None, tuple[str, ...]]:
    """Return scale, soft cap and what of them is unknown."""
    known = sample.known
    if not bool(known.any()):
        return None, None, ("scale",)
    per_far = sample.far / probe.far
    far_slack = _STEPS * probe.roundoff * (per_far.abs() + sample.additive.abs() / probe.far)
    linear = (sample.step - per_far).abs() <= sample.slack + far_slack
    if bool((linear | ~known).all()):
        return _scale_of_all_rows(probe, collapse(per_far, known, slack=far_slack)), None, ()
    cap = _read_cap(sample)
    if cap is None:
        return None, None, ("softcap",)
    share = (sample.step / cap).clamp(-1, 1)
    scale = cap * torch.atanh(share)
    slope = (1 - share.square()).clamp_min(probe.roundoff)  # of tanh: how atanh spreads an error
    reading = collapse(scale, known, slack=(sample.slack + probe.roundoff * cap) / slope)
    saturates = (reading.abs() * probe.far >= _SATURATED * cap) | (reading == 0)
    if reading.shape[-2] != 1 or not bool(saturates.all()):
        return None, None, ("softcap",)
    if not _is_tanh(probe, sample, reading, cap):
        return None, None, ("softcap",)
    return _number(reading), cap, ()


def _scale_of_all_rows(probe: Probe, scale: Tensor) -> float | Tensor:
    """Return the scale for all rows: where it differs between those of the sample, ask again."""
    if scale.shape[-2] not in {1, probe.shape[-2]}:
        keys = probe.shape[-1]
        change = probe.constant(probe.far)[..., :keys] - probe.constant(0.0)[..., :keys]
        scale = (change / probe.far).nan_to_num(0.0, 0.0, 0.0)
        scale = collapse(scale, scale != 0, slack=_STEPS * probe.roundoff * scale.abs())
    return _number(scale)


def _read_cap(sample: Sample) -> float | None:
    """Return the one number at which all entries end, or None."""
    ends = sample.far.abs()
    caps = collapse(ends, sample.known, slack=sample.slack)
    cap = float(caps.flatten()[0])
    return cap if caps.numel() == 1 and 0 < cap < float("inf") else None


def _is_tanh(probe: Probe, sample: Sample, scale: Tensor, cap: float) -> bool:
    """Compare with tanh where it bends most: at raw = cap / scale, and at half of that."""
    bend = torch.where(scale == 0, torch.zeros_like(scale), cap / scale)
    for part in (0.5, 1.0):
        raw = (part * bend).expand(probe.shape).to(probe.dtype)
        answer = probe.at(raw)[..., sample.rows, : probe.shape[-1]] - sample.additive
        expected = cap * torch.tanh(scale * raw[..., sample.rows, :] / cap)
        slack = sample.slack + 2 * _STEPS * probe.roundoff * cap
        if not bool((((answer - expected).abs() <= slack) | ~sample.known).all()):
            return False
    return True


def _number(values: Tensor) -> float | Tensor:
    return float(values) if values.numel() == 1 else narrow(values)


def narrow(values: Tensor) -> Tensor:
    """Return float32 where it holds the same values."""
    single = values.float()
    return single if bool((~differs(single.double(), values.double())).all()) else values
