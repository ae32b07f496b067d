"""Odd ways to write the two products: other functions, loops, buffers, distances, wrappers."""

# mypy: disable-error-code=no-untyped-call
# torch leaves Tensor.split and Tensor.unflatten without types.

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .projections import Projections, core, lower, seeded, split, usual
from .truth import ROOT, Style, Truth, attend


def each_sample_and_head(one: Any) -> Any:
    """Call ``one`` with the matrices of each sample and head, two loops, and stack."""

    def function(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        rows = []
        for b in range(q.shape[0]):
            heads = [one(q[b, h], k[b, h], v[b, h]) for h in range(q.shape[1])]
            rows.append(torch.stack(heads))
        return torch.stack(rows)

    return function


def by_tensordot(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Products by tensordot over named axes."""
    scores = torch.tensordot(q, k, dims=([1], [1])) / math.sqrt(8)
    return torch.tensordot(scores.softmax(1), v, dims=1)


def by_inner(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """torch.inner sums over the last axes of both."""
    return torch.inner(torch.softmax(torch.inner(q, k) / 8**0.5, dim=1), v.t())


def by_linear(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Keys as the weight of a linear layer."""
    return F.linear(F.softmax(F.linear(q * 8**-0.5, k), dim=-1), v.T)


def by_mv(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """One query at a time against all keys: matrix times vector, and back."""
    return torch.stack([v.t().mv((k.mv(row) / 8**0.5).softmax(0)) for row in q])


def last_of_all(m: Any, inputs: Any) -> Truth:
    """The last head of the last sample."""
    (x,) = inputs
    return attend(*(split(f(x), 3)[-1:, -1:] for f in (m.q, m.k, m.v)))


def last_query_of_all(m: Any, inputs: Any) -> Truth:
    """The last query of that."""
    q, k, v = (split(f(inputs[0]), 3)[-1:, -1:] for f in (m.q, m.k, m.v))
    return attend(q[:, :, -1:], k, v)


def by_mean(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The mean over features instead of their sum: a scale of 1/8."""
    weights = (q.unsqueeze(3) * k.unsqueeze(2)).mean(dim=-1).softmax(dim=-1)
    return torch.einsum("bhqk,bhkd->bhqd", weights, v)


def buffer_by_head(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """A buffer of scores, filled sample by sample and head by head, then one softmax."""
    scores = torch.zeros(q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            scores[b, h] = q[b, h] @ k[b, h].T
    weights = torch.softmax(scores / 8**0.5, dim=-1)
    return torch.matmul(weights, v)


def stacked_heads(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Scores of all heads in a list, stacked before one softmax; contexts by one matmul."""
    scores = [torch.bmm(q[:, h], k[:, h].transpose(1, 2)) for h in range(q.shape[1])]
    return (torch.stack(scores, dim=1) * 8**-0.5).softmax(-1) @ v


def query_chunks(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Sliced attention: two queries at a time, the result written into a buffer."""
    out = torch.empty_like(q)
    for start in range(0, q.shape[2], 2):
        part = slice(start, start + 2)
        attn = torch.matmul(q[:, :, part], k.transpose(-1, -2)) * 8**-0.5
        out[:, :, part] = torch.matmul(attn.softmax(dim=-1), v)
    return out


def last_chunk(m: Any, inputs: Any) -> Truth:
    """The fifth query is alone."""
    q, k, v = (split(f(inputs[0]), 3) for f in (m.q, m.k, m.v))
    return attend(q[:, :, 4:], k, v)


def distance_by_product(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """L2 attention: squared distances by the binomial formula."""
    squared = q.pow(2).sum(-1, keepdim=True) + k.pow(2).sum(-1).unsqueeze(-2)
    squared = squared - 2 * torch.matmul(q, k.transpose(-2, -1))
    return F.softmax(-squared / math.sqrt(8), dim=-1) @ v


def distance_by_cdist(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The same by cdist."""
    return torch.softmax(-torch.cdist(q, k).square() / 8**0.5, dim=-1) @ v


def gaussian(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """A Gaussian kernel smoother of differences, normalised by hand."""
    kernel = torch.exp(-(q[..., :, None, :] - k[..., None, :, :]).pow(2).sum(-1) / (2 * 4.0))
    return (kernel / kernel.sum(-1, keepdim=True)) @ v


def distances(factor: float) -> Any:
    """Scores are -factor·|q - k|²: twice the product, less both squares."""

    def bias(m: Any, inputs: Any) -> Tensor:
        q, k = split(m.q(inputs[0]), 3), split(m.k(inputs[0]), 3)
        return -factor * (q.square().sum(-1)[..., None] + k.square().sum(-1)[..., None, :])

    return usual(2 * factor, bias=bias)


def complex_products(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Features in pairs as complex numbers; the real part of the Hermitian product."""
    qc, kc = (torch.view_as_complex(t.unflatten(-1, (4, 2)).contiguous()) for t in (q, k))
    scores = (qc @ kc.conj().transpose(-1, -2)).real / 8**0.5
    return scores.softmax(dim=-1) @ v


def without_operands(m: Any, inputs: Any) -> Truth:
    """Weights, values and context; query and key have a form of their own."""
    plain = usual()(m, inputs)
    return Truth(
        q=None, k=None, v=plain.v, weights=plain.weights, context=plain.context, scale=ROOT
    )


def mapped_over_heads(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """One head written plainly, mapped over heads and samples by vmap."""

    def one(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.softmax(q @ k.T / 8**0.5, dim=-1) @ v

    return torch.func.vmap(torch.func.vmap(one))(q, k, v)


class OwnBackward(torch.autograd.Function):
    """Attention with a backward of its own, as memory-saving code has it."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend and keep the weights."""
        weights = torch.softmax(q @ k.transpose(-1, -2) * 8**-0.5, dim=-1)
        ctx.save_for_backward(q, k, v, weights)
        return weights @ v

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Carry the gradient back by the formulas."""
        (grad,) = grads
        q, k, v, weights = ctx.saved_tensors
        by_weights = grad @ v.mT
        inner = weights * (by_weights - (by_weights * weights).sum(-1, keepdim=True)) * 8**-0.5
        return inner @ k, inner.mT @ q, weights.mT @ grad


def softmax_out(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """No gradients: the softmax writes over the scores, the product into a buffer."""
    with torch.no_grad():
        scores = torch.matmul(q, k.mT).mul_(8**-0.5)
        torch.softmax(scores, dim=-1, out=scores)
        return torch.matmul(scores, v, out=torch.empty_like(q))


def copied_back(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Weights are copied into the tensor that held the scores."""
    scores = q @ k.transpose(2, 3)
    scores = scores * 8**-0.5
    scores[:] = torch.softmax(scores.clone(), dim=3)
    return scores @ v


def doubles(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Everything in float64 and back."""
    weights = torch.softmax(q.double() @ k.double().mT / math.sqrt(8), dim=-1)
    return (weights @ v.to(torch.float64)).to(q.dtype)


class NoProjections(nn.Module):
    """The first page of a tutorial: the tokens themselves are queries, keys and values."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x."""
        raw_weights = torch.bmm(x, x.transpose(1, 2))
        weights = F.softmax(raw_weights, dim=2)
        return torch.bmm(weights, x)


def tokens_themselves(_: Any, inputs: Any) -> Truth:
    """One head."""
    (x,) = inputs
    return attend(x[:, None], x[:, None], x[:, None], 1.0)


class TransposedOperands(Projections):
    """Queries laid (heads, tokens, batch, features), keys (features, heads, tokens, batch)."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x."""
        q, k, v = (f(x).reshape(2, 5, 3, 8) for f in (self.q, self.k, self.v))
        q, k = q.permute(2, 1, 0, 3).contiguous(), k.permute(3, 2, 1, 0).contiguous()
        scores = q.permute(2, 0, 1, 3) @ k.permute(3, 1, 0, 2)
        weights = torch.softmax(scores * 8**-0.5, -1).permute(1, 3, 2, 0).contiguous()
        context = torch.einsum("hkqb,bkhd->bqhd", weights, v)
        return self.out(context.reshape(2, 5, 24))


class GeneralProduct(nn.Module):
    """Luong's general score as people first write it: x W xᵀ."""

    def __init__(self) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.randn(20, 20) * 0.1)

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x."""
        return torch.softmax(x @ self.W @ x.transpose(-2, -1), dim=-1) @ x


def general_truth(m: Any, inputs: Any) -> Truth:
    """The weight belongs to the query."""
    (x,) = inputs
    return attend((x @ m.W)[:, None], x[:, None], x[:, None], 1.0)


def shared_key_value(q: Tensor, k: Tensor, _: Tensor) -> Tensor:
    """Keys are the values."""
    return torch.softmax(q @ k.mT / 8**0.5, dim=-1) @ k


def half_with_mask(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """All in float16, filled with its lowest number."""
    q, k, v = q.half(), k.half(), v.half()
    scores = torch.matmul(q * 0.35355, k.transpose(-1, -2))
    scores = scores.masked_fill(torch.ones(5, 5, dtype=torch.bool).triu(1), -65504.0)
    return torch.matmul(F.softmax(scores, dim=-1), v).float()


STYLES: tuple[Style, ...] = (
    Style(
        name="loops-tensordot", build=core(each_sample_and_head(by_tensordot)), calls=6, batch=1,
        heads=1, kv_heads=1, truth=last_of_all, output=None,
    ),
    Style(
        name="loops-inner", build=core(each_sample_and_head(by_inner)), calls=6, batch=1,
        heads=1, kv_heads=1, truth=last_of_all, output=None,
    ),
    Style(
        name="loops-linear", build=core(each_sample_and_head(by_linear)), calls=6, batch=1,
        heads=1, kv_heads=1, truth=last_of_all, output=None,
    ),
    Style(
        name="loops-matrix-vector", build=core(each_sample_and_head(by_mv)), calls=30, batch=1,
        heads=1, kv_heads=1, queries=1, truth=last_query_of_all, output=None,
    ),
    Style(name="mean-of-products", build=core(by_mean), scale=1 / 8, truth=usual(1 / 8)),
    Style(name="buffer-filled-by-head", build=core(buffer_by_head), truth=usual()),
    Style(name="scores-stacked-by-head", build=core(stacked_heads), truth=usual()),
    Style(
        name="query-chunks-into-buffer", build=core(query_chunks), calls=3, queries=1,
        truth=last_chunk, output=None,
    ),
    Style(
        name="distance-by-product", build=core(distance_by_product), scale=2 * ROOT, bias=True,
        truth=distances(ROOT),
    ),
    Style(
        name="distance-by-cdist", build=core(distance_by_cdist), scale=2 * ROOT, bias=True,
        truth=distances(ROOT), note="no product at all; a distance is one with a bias",
    ),
    Style(
        name="gaussian-kernel", build=core(gaussian), scale=0.25, bias=True,
        truth=distances(1 / 8), note="the same, by differences",
    ),
    Style(
        name="complex-products", build=core(complex_products), head_dim=4,
        truth=without_operands,
    ),
    Style(name="mapped-by-vmap", build=core(mapped_over_heads), truth=usual()),
    Style(name="own-backward", build=core(OwnBackward.apply), truth=usual()),
    Style(name="softmax-over-its-input", build=core(softmax_out), truth=usual()),
    Style(name="weights-copied-back", build=core(copied_back), truth=usual()),
    Style(name="float64-inside", build=core(doubles), truth=usual()),
    Style(
        name="no-projections", build=seeded(NoProjections), heads=1, kv_heads=1, head_dim=20,
        value_dim=20, scale=1.0, truth=tokens_themselves, output=lambda _, t: t.merged,
    ),
    Style(name="permuted-operands", build=seeded(TransposedOperands), truth=usual()),
    Style(
        name="general-product", build=seeded(GeneralProduct), heads=1, kv_heads=1, head_dim=20,
        value_dim=20, scale=1.0, truth=general_truth, output=lambda _, t: t.merged,
    ),
    Style(
        name="keys-as-values", build=core(shared_key_value),
        truth=lambda m, i: attend(*(split(f(i[0]), 3) for f in (m.q, m.k, m.k))),
    ),
    Style(
        name="half-lowest-mask", build=core(half_with_mask), mask=frozenset({"causal"}),
        visible=0.6, scale=0.35355, truth=usual(0.35355, visible=lower()), tolerance=2**-9,
    ),
)  # fmt: skip
