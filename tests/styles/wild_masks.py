"""Masks and biases as unusual people make them."""

# mypy: disable-error-code=no-untyped-call
# torch leaves Tensor.split and Tensor.unflatten without types.

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .projections import Core, Projections, core, lower, merge, noise, seeded, split, usual
from .truth import Inputs, Style, Truth

FUTURE = torch.ones(5, 5, dtype=torch.bool).triu(1)


def logarithm_of_mask(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The logarithm of zeros and ones is added."""
    mask = torch.tril(torch.ones(5, 5))
    return torch.softmax(q @ k.mT / 8**0.5 + mask.log(), dim=-1) @ v


def times_exponentials(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Exponentials times a mask, then divided by their sum."""
    e = torch.exp(q @ k.transpose(-2, -1) / 8**0.5) * torch.tril(torch.ones(5, 5))
    return (e / e.sum(dim=-1, keepdim=True)) @ v


def by_indices(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """triu_indices and an assignment."""
    scores = q @ k.transpose(-2, -1) / 8**0.5
    rows, columns = torch.triu_indices(5, 5, offset=1)
    scores[..., rows, columns] = float("-inf")
    return scores.softmax(dim=-1) @ v


def minus_times_mask(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """scores - 1e10 * (1 - mask), as ports of the first language models have it."""
    b = torch.tril(torch.ones(5, 5)).view(1, 1, 5, 5)
    w = torch.matmul(q, k.transpose(-2, -1))
    w = w * 8**-0.5
    w = w * b - 1e10 * (1 - b)
    return torch.matmul(nn.Softmax(dim=-1)(w), v)


def empty_rows(q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
    """Causal and left padding by -inf; rows that see nothing are made zero afterwards."""
    visible = torch.ones(5, 5, dtype=torch.bool).tril() & keep[:, None, None, :]
    scores = torch.where(visible, q @ k.mT / 8**0.5, float("-inf"))
    return torch.nan_to_num(scores.softmax(-1), nan=0.0) @ v


LEFT = torch.tensor([[False, False, True, True, True], [True] * 5])


def empty_truth(m: Any, inputs: Any) -> Truth:
    """The softmax gives NaN where nothing is seen; zeros meet the values."""
    (x, keep) = inputs
    visible = lower() & keep[:, None, None, :]
    return usual(visible=visible, change=lambda w: w.nan_to_num(0.0))(m, (x,))


def same_group(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    """Tokens of one group see each other; groups are scattered."""
    hidden = ids.unsqueeze(1) != ids.unsqueeze(2)
    scores = torch.einsum("bhid,bhjd->bhij", q, k) / 8**0.5
    scores = scores.masked_fill(hidden.unsqueeze(1), torch.finfo(scores.dtype).min)
    return scores.softmax(-1) @ v


IDS = torch.tensor([[0, 1, 0, 1, 1], [2, 2, 0, 2, 0]])


class TimeDecay(Core):
    """Irregular times: only the past within a horizon, and what is long ago counts less."""

    def __init__(self) -> None:
        super().__init__(self.attend)
        self.rate = nn.Parameter(torch.tensor([0.1, 0.3, 0.5]))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, times: Tensor) -> Tensor:
        """Attend from each event to those before."""
        age = times[:, :, None] - times[:, None, :]
        logits = torch.einsum("bhqd,bhkd->bhqk", q, k) * 8**-0.5
        logits = logits - self.rate[:, None, None] * age.abs()[:, None]
        seen = (age >= 0) & (age <= 3.0)
        return torch.where(seen[:, None], logits, -1e9).softmax(-1) @ v


TIMES = torch.tensor([[0.0, 1.0, 1.5, 4.0, 6.0], [0.0, 0.5, 3.0, 3.5, 9.0]])
AGE = TIMES[:, None, :, None] - TIMES[:, None, None, :]
RECENT = (AGE >= 0) & (AGE <= 3)


def decay(m: Any, _: Any) -> Tensor:
    """Rates per head times age."""
    return -m.rate[:, None, None] * AGE.abs()


class Forgetting(Projections):
    """Forget gates: their logarithms, summed between key and query, are a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.f = nn.Linear(20, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x, causally."""
        q, k, v = (split(g(x), 3) for g in (self.q, self.k, self.v))
        log_f = F.logsigmoid(self.f(x)).transpose(1, 2).cumsum(dim=-1)
        scores = q @ k.mT * 8**-0.5 + (log_f.unsqueeze(-1) - log_f.unsqueeze(-2))
        return self.out(merge(scores.masked_fill(FUTURE, -torch.inf).softmax(-1) @ v))


def forgetting_bias(m: Any, inputs: Any) -> Tensor:
    """Sums of log gates."""
    total = F.logsigmoid(m.f(inputs[0])).mT.cumsum(-1)
    return total[..., :, None] - total[..., None, :]


class PaddedBias(Core):
    """A bias for four places, padded for the class token in front."""

    def __init__(self) -> None:
        super().__init__(self.attend)
        self.table = nn.Parameter(torch.randn(3, 4, 4))

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend with the padded bias."""
        attn = (q * 8**-0.5) @ k.transpose(-2, -1) + F.pad(self.table, (1, 0, 1, 0)).unsqueeze(0)
        return attn.softmax(dim=-1).type_as(v) @ v


def given(name: str, function: Any, extra: Tensor, **facts: Any) -> Style:
    """A style whose function takes one more tensor."""

    def inputs() -> Inputs:
        return (noise(2, 5, 20), extra)

    return Style(name=name, build=core(function), inputs=inputs, **facts)


CAUSAL: dict[str, Any] = {
    "mask": frozenset({"causal"}), "visible": 0.6, "truth": usual(visible=lower()),
}  # fmt: skip
CUSTOM = frozenset({"custom"})


STYLES: tuple[Style, ...] = (
    Style(name="mask-logarithm", build=core(logarithm_of_mask), **CAUSAL),
    Style(name="mask-times-exponentials", build=core(times_exponentials), **CAUSAL),
    Style(name="mask-triu-indices", build=core(by_indices), **CAUSAL),
    Style(name="mask-minus-ten-billion", build=core(minus_times_mask), **CAUSAL),
    given(
        "mask-rows-made-zero", empty_rows, LEFT, mask=frozenset({"causal", "padding"}),
        visible=(6 + 15) / 50, after=("nan_to_num",), truth=empty_truth,
    ),
    given(
        "mask-same-group", same_group, IDS, mask=CUSTOM, visible=26 / 50,
        truth=usual(visible=(IDS[:, None, :, None] == IDS[:, None, None, :])),
    ),
    Style(
        name="time-decay-within-horizon", build=seeded(TimeDecay),
        inputs=lambda: (noise(2, 5, 20), TIMES), mask=CUSTOM,
        visible=RECENT.float().mean().item(), bias=True,
        truth=usual(visible=RECENT, bias=decay),
    ),
    Style(
        name="forgetting-gates", build=seeded(Forgetting), bias=True,
        mask=frozenset({"causal"}), visible=0.6,
        truth=usual(visible=lower(), bias=forgetting_bias),
    ),
    Style(
        name="bias-padded-for-class-token", build=seeded(PaddedBias), bias=True,
        truth=usual(bias=lambda m, _: F.pad(m.table, (1, 0, 1, 0))),
    ),
)  # fmt: skip
