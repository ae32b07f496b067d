"""AS801: flags, arguments and modes that choose another computation, and their restoration."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.checks.marks import marked
from tests.checks.rules.by_scores import ByHand, features, found, line_of, only


class Attend(torch.autograd.Function):
    """Attention with its own backward; `factor` is what dk has too much, `levels` rounds q."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        q, k, v, ctx.factor, levels = given
        if levels:
            q = (q * levels).round() / levels
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        ctx.save_for_backward(q, k, v, weights)
        return weights @ v  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:  # own backward
        q, k, v, weights = ctx.saved_tensors
        back = grads[0] @ v.mT
        scores = weights * (back - (back * weights).sum(-1, keepdim=True)) / q.shape[-1] ** 0.5
        return scores @ k, scores.mT @ q * ctx.factor, weights.mT @ grads[0], None, None


class OwnBackward(ByHand):
    def __init__(self, factor: float, levels: int = 0) -> None:
        super().__init__()
        self.factor, self.levels = factor, levels

    def forward(self, x: Tensor) -> Tensor:
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = Attend.apply(q, k, v, self.factor, self.levels)  # type: ignore[no-untyped-call]
        return self.out(y.transpose(1, 2).reshape(b, n, d))  # type: ignore[no-any-return]


@pytest.mark.parametrize("factor", [1.5, 0.0, -1.0])
def test_a_backward_that_is_not_the_derivative_of_its_forward(factor: float) -> None:
    finding = only("AS801", OwnBackward(factor), features())
    assert (finding.evidence["function"], finding.evidence["stage"]) == ("Attend", "k")
    assert line_of(finding) == marked(__file__, "own backward")
    if factor:
        ratio = finding.evidence["backward"] / finding.evidence["derivative"]
        assert ratio == pytest.approx(factor, rel=1e-3)


def test_a_right_backward_and_one_that_goes_straight_through_rounding() -> None:
    assert not found("AS801", OwnBackward(1.0), features())
    assert not found("AS801", OwnBackward(1.0, levels=4), features())


class Switch(ByHand):
    use_flash = True

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, x: Tensor, need_weights: bool = False) -> Tensor:  # noqa: FBT001, FBT002  as torch has it
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if self.by_kernel(asked=need_weights):
            y = F.scaled_dot_product_attention(q, k, v)  # kernel
        else:
            y = (q @ k.mT * self.scale).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, n, d))  # type: ignore[no-any-return]

    def by_kernel(self, *, asked: bool) -> bool:
        del asked
        return self.use_flash


class Asked(Switch):
    def by_kernel(self, *, asked: bool) -> bool:
        return not asked


class Trained(Switch):
    def by_kernel(self, *, asked: bool) -> bool:
        del asked
        return not self.training


@pytest.mark.parametrize(
    ("kind", "switch"),
    [(Switch, "Switch.use_flash"), (Asked, "need_weights=True"), (Trained, "train mode")],
)
def test_the_switch_is_named_with_what_differs(kind: type[Switch], switch: str) -> None:
    inputs = {"x": features(), "need_weights": False}
    finding = only("AS801", kind(scale=0.1).eval(), inputs)
    assert finding.severity == "warning"
    assert finding.evidence["switch"].startswith(switch)
    assert "scale 0.3536 against 0.1" in finding.message
    assert finding.evidence["moved_by"] > 10 * finding.evidence["noise"]
    assert line_of(finding) == marked(__file__, "kernel")
    assert not found("AS801", kind(scale=8**-0.5).eval(), inputs)


def test_the_flag_is_put_back() -> None:
    model = Switch(scale=0.1)
    only("AS801", model, features())
    assert model.use_flash is True
    assert "use_flash" not in vars(model)
    assert model.training


def test_a_kernel_agrees_with_itself_on_other_strides() -> None:
    q, k, v = (torch.randn(2, 7, 3, 8).transpose(1, 2) for _ in range(3))
    assert not found("AS801", F.scaled_dot_product_attention, (q, k, v))


class Named(Switch):
    """Chooses its way by a name, as settings of many models do."""

    def __init__(self, scale: float) -> None:
        super().__init__(scale)
        self.backend = "sdpa"

    def by_kernel(self, *, asked: bool) -> bool:
        del asked
        if self.backend == "manual":
            return False
        return self.backend in {"sdpa", "flash"}


class Frozen(Switch):
    """Refuses to be turned."""

    @property
    def use_flash(self) -> bool:  # type: ignore[override]
        return True


def test_the_name_of_a_way_is_a_switch() -> None:
    model = Named(scale=0.1).eval()
    finding = only("AS801", model, features())
    assert finding.evidence["switch"] == "Named.backend = 'manual'"
    assert "scores times 0.1" in finding.evidence["recomputed"]
    assert model.backend == "sdpa"
    assert not found("AS801", Named(scale=8**-0.5).eval(), features())


def test_what_cannot_be_set_is_no_switch() -> None:
    assert not found("AS801", Frozen(scale=0.1).eval(), features())


class Fused(ByHand):
    """Two models in one: the fused projection, and the parts of which one was changed later."""

    def __init__(self) -> None:
        super().__init__()
        self.fused = True
        self.parts = torch.nn.ModuleList(torch.nn.Linear(24, 24) for _ in range(3))

    def attend(self, x: Tensor) -> tuple[Tensor, Tensor]:
        b, n, _ = x.shape
        made = self.qkv(x).chunk(3, -1) if self.fused else [part(x) for part in self.parts]
        q, k, v = (each.reshape(b, n, self.heads, -1).transpose(1, 2) for each in made)
        weights = self.weights(self.scores(q, k))
        return self.out(self.context(weights, v).transpose(1, 2).flatten(2)), weights


def test_ways_with_parameters_of_their_own_are_two_models() -> None:
    assert not found("AS801", Fused().eval(), features())


class Forgets(Switch):
    """The kernel gets no mask, the other way does: AS208 says so."""

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:  # type: ignore[override]
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if self.use_flash:
            y = F.scaled_dot_product_attention(q, k, v)
        else:
            scores = (q @ k.mT * 8**-0.5).masked_fill(~keep[:, None, None], float("-inf"))
            y = scores.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, n, d))  # type: ignore[no-any-return]


def test_a_mask_that_one_way_forgets_is_told_as_ignored() -> None:
    keep = torch.arange(7)[None] < torch.tensor([[7], [5], [4]])
    inputs = {"x": features(), "keep": keep}
    assert not found("AS801", Forgets(scale=1.0).eval(), inputs)
    assert only("AS208", Forgets(scale=1.0).eval(), inputs).evidence["argument"] == "keep"


class Blocks(ByHand):
    """Attention in blocks of keys, with a running maximum."""

    shrinks = True

    def forward(self, x: Tensor) -> Tensor:
        b, n, d = x.shape
        q, k, v = self.qkv(3 * x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        most = q.new_full((*q.shape[:-1], 1), -torch.inf)
        total, y = torch.zeros_like(most), torch.zeros_like(q)
        for part in range(0, n, 3):
            scores = q @ k[..., part : part + 3, :].mT * 8**-0.5
            new = torch.maximum(most, scores.amax(-1, keepdim=True))
            less, made = (most - new).exp(), (scores - new).exp()
            total = total * less + made.sum(-1, keepdim=True)
            y = (y * less if self.shrinks else y) + made @ v[..., part : part + 3, :]  # blocks
            most = new
        return self.out((y / total).transpose(1, 2).reshape(b, n, d))  # type: ignore[no-any-return]


class Unshrunk(Blocks):
    shrinks = False


def test_blocks_must_give_the_softmax_over_all_keys() -> None:
    finding = only("AS801", Unshrunk(), features())
    assert "all keys at once" in finding.message
    assert line_of(finding) == marked(__file__, "blocks")
    assert not found("AS801", Blocks(), features())


class OwnDraw(ByHand):
    """Noise in train mode, from a generator of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.draw = torch.Generator().manual_seed(0)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        scores = super().scores(q, k)
        if self.training:
            scores = scores + torch.zeros_like(scores).normal_(generator=self.draw)
        return scores


def test_a_generator_of_its_own_is_random() -> None:
    assert not found("AS801", OwnDraw().eval(), features())


class Forgotten(ByHand):
    """One of two ways forgets the causal mask."""

    def __init__(self, *, use_flash: bool) -> None:
        super().__init__()
        self.use_flash = use_flash

    def forward(self, x: Tensor) -> Tensor:
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=not self.use_flash)
        return self.out(y.transpose(1, 2).reshape(b, n, d))  # type: ignore[no-any-return]


def test_what_the_future_leak_tells_is_not_told_twice() -> None:
    causal = {"causal": True}
    assert not found("AS801", Forgotten(use_flash=True), features(), expect=causal)
    assert found("AS801", Forgotten(use_flash=False), features(), expect=causal)
