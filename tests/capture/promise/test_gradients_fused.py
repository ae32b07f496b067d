"""`call.grad` of fused attention equals autograd on the definition in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnscope.calls.call import Call
from attnscope.capture import record
from attnscope.errors import ReplayError
from tests.capture.promise.runs import undisturbed

BATCH, HEADS, QUERIES, KEYS, DIM = 2, 4, 5, 7, 6
TOLERANCE = 1e-4

VISIBLE = torch.rand(BATCH, 1, QUERIES, KEYS, generator=torch.Generator().manual_seed(1)) > 0.4
VISIBLE[..., 0] = True
BIAS = torch.randn(1, HEADS, QUERIES, KEYS, generator=torch.Generator().manual_seed(2))

CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "scale": {"scale": 0.3},
    "boolean": {"attn_mask": VISIBLE},
    "bias": {"attn_mask": BIAS},
    "bias and mask": {"attn_mask": BIAS.masked_fill(~VISIBLE, float("-inf"))},
    "causal": {"is_causal": True},
    "grouped": {"enable_gqa": True},
    "grouped causal": {"enable_gqa": True, "is_causal": True, "scale": 0.2},
}


def attend(*tensors: Tensor, **options: Any) -> Tensor:
    return F.scaled_dot_product_attention(*tensors, **options)  # type: ignore[arg-type]


def tensors(kv_heads: int, value_dim: int = DIM) -> list[Tensor]:
    torch.manual_seed(6)
    shapes = [(HEADS, QUERIES, DIM), (kv_heads, KEYS, DIM), (kv_heads, KEYS, value_dim)]
    return [torch.randn(BATCH, *shape) for shape in shapes]


def definition(q: Tensor, k: Tensor, v: Tensor, options: dict[str, Any]) -> dict[str, Tensor]:
    """Every tensor of the call in float64, leaves of one graph; k and v by kv head."""
    q, k, v = (one.double().requires_grad_() for one in (q, k, v))
    group = q.shape[1] // k.shape[1]
    scale = options.get("scale") or q.shape[-1] ** -0.5
    scores = q @ k.repeat_interleave(group, 1).mT * scale
    mask = options.get("attn_mask")
    if options.get("is_causal"):
        mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril()
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, float("-inf"))
    elif mask is not None:
        scores = scores + mask.double()
    weights = scores.softmax(-1)
    context = weights @ v.repeat_interleave(group, 1)
    return {"q": q, "k": k, "v": v, "scores": scores, "weights": weights, "context": context}


def compare(call: Call, named: dict[str, Tensor], loss: Tensor) -> None:
    """Compare all six gradients."""
    for name, wanted in zip(named, torch.autograd.grad(loss, list(named.values())), strict=True):
        given = call.grad(name).double()  # type: ignore[arg-type]
        assert given.shape == wanted.shape, name
        assert float((given - wanted).abs().max()) < TOLERANCE * float(wanted.abs().max()), name


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
@pytest.mark.parametrize("value_dim", [DIM, 3])
def test_sdpa(options: dict[str, Any], value_dim: int) -> None:
    q, k, v = tensors(2 if options.get("enable_gqa") else HEADS, value_dim)
    with record(None) as trace:
        leaves = [one.clone().requires_grad_() for one in (q, k, v)]
        out = attend(*leaves, **options)
        out.pow(3).sum().backward()
    named = definition(q, k, v, options)
    compare(trace[0], named, named["context"].pow(3).sum())
    for name, leaf in zip("qkv", leaves, strict=True):
        torch.testing.assert_close(trace[0].grad(name), leaf.grad)  # type: ignore[arg-type]


def test_another_gradient_would_be_noticed() -> None:
    q, k, v = tensors(HEADS)
    with record(None) as trace:
        attend(q.requires_grad_(), k, v).pow(3).sum().backward()
    named = definition(q.detach(), k, v, {"scale": DIM**-0.5 * 1.01})
    with pytest.raises(AssertionError):
        compare(trace[0], named, named["context"].pow(3).sum())


@pytest.mark.parametrize("way", ["repeat_interleave", "expand"])
def test_repeated_kv_heads(way: str) -> None:
    """Copies of a kv head give one gradient, their sum."""
    q, k, v = tensors(2)

    def widen(one: Tensor) -> Tensor:
        if way == "repeat_interleave":
            return one.repeat_interleave(2, 1)
        return one[:, :, None].expand(-1, -1, 2, -1, -1).reshape(BATCH, HEADS, KEYS, -1)

    with record(None) as trace:
        k, v = k * 1.0, v * 1.0
        q.requires_grad_()
        out = attend(q, widen(k), widen(v), is_causal=True)
        out.pow(3).sum().backward()
    assert trace[0].kv_heads == 2
    named = definition(q.detach(), k, v, {"is_causal": True})
    compare(trace[0], named, named["context"].pow(3).sum())


def test_a_scaled_query() -> None:
    """A scale that was multiplied into q beforehand belongs to the recipe, not to q."""
    q, k, v = tensors(HEADS)
    with record(None) as trace:
        q = q.requires_grad_() * 1.0
        out = attend(q * 0.5, k, v, scale=0.6)
        out.pow(3).sum().backward()
    named = definition(q.detach(), k, v, {"scale": 0.3})
    compare(trace[0], named, named["context"].pow(3).sum())


MASKS: dict[str, dict[str, Any]] = {
    "none": {},
    "causal": {"attn_mask": torch.ones(QUERIES, QUERIES, dtype=torch.bool).triu(1)},
    "hint": {
        "attn_mask": torch.ones(QUERIES, QUERIES, dtype=torch.bool).triu(1),
        "is_causal": True,
    },
    "padding": {"key_padding_mask": torch.arange(QUERIES) >= torch.tensor([QUERIES, 3])[:, None]},
}


@pytest.mark.parametrize("masks", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("need_weights", [True, False])
def test_multihead_attention(masks: dict[str, Any], need_weights: bool) -> None:  # noqa: FBT001
    def run(model: nn.Module) -> Any:
        torch.manual_seed(3)
        x = torch.randn(BATCH, QUERIES, 24)
        out, weights = model(x, x, x, need_weights=need_weights, **masks)
        out.pow(3).sum().backward()
        return out, weights

    def build() -> nn.Module:
        torch.manual_seed(0)
        return nn.MultiheadAttention(24, HEADS, batch_first=True)

    (call,) = undisturbed(build, run)
    module = build().double()
    torch.manual_seed(3)
    x = torch.randn(BATCH, QUERIES, 24).double()
    assert isinstance(module, nn.MultiheadAttention)
    packed = F.linear(x, module.in_proj_weight, module.in_proj_bias).chunk(3, -1)
    q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2).detach() for one in packed)
    visible = None
    if "attn_mask" in masks:
        visible = ~masks["attn_mask"]
    if "key_padding_mask" in masks:
        visible = ~masks["key_padding_mask"][:, None, None]
    named = definition(q, k, v, {} if visible is None else {"attn_mask": visible})
    out = module.out_proj(named["context"].transpose(1, 2).flatten(2))
    compare(call, named, out.pow(3).sum())


def nothing_needs_it() -> Any:
    attend(*tensors(HEADS))


def no_grad() -> Any:
    with torch.no_grad():
        attend(*(one.requires_grad_() for one in tensors(HEADS)))


def no_backward() -> Any:
    attend(*(one.requires_grad_() for one in tensors(HEADS)))


@pytest.mark.parametrize("run", [nothing_needs_it, no_grad, no_backward], ids=lambda r: r.__name__)
def test_without_a_gradient_it_says_so(run: Callable[[], Any]) -> None:
    with record(None) as trace:
        run()
    with pytest.raises(ReplayError, match="no backward reached this call"):
        trace[0].grad("q")


def test_half_precision() -> None:
    q, k, v = (one.bfloat16() for one in tensors(HEADS))
    with record(None) as trace:
        leaves = [one.clone().requires_grad_() for one in (q, k, v)]
        attend(*leaves).float().pow(3).sum().backward()
    named = definition(q, k, v, {})
    wanted = torch.autograd.grad(named["context"].pow(3).sum(), list(named.values()))
    for name, gradient in zip(named, wanted, strict=True):
        given = trace[0].grad(name).double()  # type: ignore[arg-type]
        assert float((given - gradient).abs().max()) < 0.05 * float(gradient.abs().max()), name
