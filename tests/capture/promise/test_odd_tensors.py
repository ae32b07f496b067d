"""Sizes of zero and one, other types and layouts, lists of tensors: all as without attnscope."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.capture.promise.models import ATTENTIONS, WIDTH, Block
from tests.capture.promise.runs import undisturbed

every_attention = pytest.mark.parametrize("attend", ATTENTIONS.values(), ids=ATTENTIONS)
SIZES = [(0, 5), (2, 0), (1, 1), (0, 0), (2, 1), (1, 5)]


@pytest.mark.parametrize(("batch", "tokens"), SIZES)
@every_attention
def test_sizes(batch: int, tokens: int, attend: Callable[..., Tensor]) -> None:
    def run(model: nn.Module) -> Any:
        x = torch.randn(batch, tokens, WIDTH).requires_grad_()
        out = model.eval()(x)
        out.sum().backward()
        return out, x.grad

    trace = undisturbed(partial(Block, attend), run)
    assert len(trace) == 1
    call = trace[0]
    assert (call.batch, call.queries, call.keys) == (batch, tokens, tokens)
    assert call.weights().shape == (batch, 4, tokens, tokens)
    assert call.grad("q").shape == call.q.shape
    assert call.replay_error is not None
    assert call.replay_error < 1e-5


@every_attention
def test_no_keys(attend: Callable[..., Tensor]) -> None:
    class Cross(nn.Module):
        def forward(self, q: Tensor, k: Tensor) -> Tensor:
            return attend(q, k, k, 0.0, training=False)

    def run(model: nn.Module) -> Any:
        return model(torch.randn(1, 2, 3, 4), torch.randn(1, 2, 0, 4))

    undisturbed(Cross, run)


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.bfloat16, torch.float16], ids=lambda one: str(one)[6:]
)
@every_attention
def test_types(dtype: torch.dtype, attend: Callable[..., Tensor]) -> None:
    def run(model: nn.Module) -> Any:
        return model.eval()(torch.randn(2, 5, WIDTH, dtype=dtype))

    def build() -> nn.Module:
        return Block(attend).to(dtype)

    trace = undisturbed(build, run)
    assert trace[0].q.dtype == dtype
    assert trace[0].replay_error is not None


class Around(nn.Module):
    """Attention with other operations before and after it."""

    def __init__(self, other: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.other = other
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x: Tensor) -> Any:
        """Return the context and what the operations gave."""
        before = self.other(x)
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = q @ k.mT / 4
        during = self.other(scores)
        return before, during, scores.softmax(-1) @ v, self.other(v)


def spectrum(x: Tensor) -> Any:
    z = torch.fft.fft(x, dim=-1)
    return torch.fft.ifft(z * z.conj()).real, z.abs(), torch.view_as_real(z), z.mT.conj() @ z


def complex_attention(x: Tensor) -> Any:
    z = torch.complex(x, x + 1)
    return (z @ z.mH).abs().softmax(-1).to(z.dtype) @ z


def rotary(x: Tensor) -> Any:
    if x.shape[-1] % 2:
        return x
    angles = torch.polar(torch.ones(x.shape[-1] // 2), torch.arange(x.shape[-1] // 2.0))
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * angles).flatten(-2)


def sparse(x: Tensor) -> Any:
    graph = x[0].detach().relu().to_sparse()
    rows = torch.sparse.mm(graph.t().coalesce(), x[0])
    return torch.sparse.softmax(graph, -1).to_dense(), rows, graph.coalesce().values()


def compressed(x: Tensor) -> Any:
    graph = x[0].detach().relu().to_sparse_csr()
    return graph @ x[0].mT[:, :3].mT.mT if graph.shape[1] != x.shape[2] else graph @ x[0].mT


def lists(x: Tensor) -> Any:
    several = [x.detach().clone(), x.detach() * 2]
    torch._foreach_mul_(several, 0.5)
    more = torch._foreach_add(several, several)
    torch._foreach_addcmul_(several, more, more)
    return several, more, torch._foreach_norm(several), torch.stack(several).sum(0)


def nested(x: Tensor) -> Any:
    ragged = torch.nested.nested_tensor([x[0].detach(), x[0, :2].detach()])
    return ragged.to_padded_tensor(0.0), F.softmax(ragged, -1).to_padded_tensor(0.0)


def quantized(x: Tensor) -> Any:
    q = torch.quantize_per_tensor(x.detach(), 0.1, 10, torch.quint8)
    return q.dequantize(), q.int_repr()


def integers(x: Tensor) -> Any:
    n = (x * 10).to(torch.int64)
    return n @ n.mT, n // 3, n.bitwise_and(3), n.argmax(-1), (n > 2).any(-1)


def linear_algebra(x: Tensor) -> Any:
    square = x[0].mT @ x[0] + torch.eye(x.shape[-1])
    return torch.linalg.cholesky(square), torch.linalg.solve(square, x[0].mT), square.det()


def control(x: Tensor) -> Any:
    if (x > 0).any() and x.sum() > -1e9 and bool(x[0, 0, 0] != 3):
        x = x + x.argmax().item()
    return x, x.shape, x.tolist(), len(x), int(x[0, 0, 0]), f"{x[0, 0, 0]:.3f}", str(x)


def recurrent(x: Tensor) -> Any:
    torch.manual_seed(1)
    network = nn.GRU(x.shape[-1], 4, batch_first=True)
    return network(x)


def convolution(x: Tensor) -> Any:
    return F.conv1d(x, torch.ones(2, x.shape[1], 1)), F.unfold(x[:, None], 2), F.max_pool1d(x, 2)


def packed(x: Tensor) -> Any:
    return nn.utils.rnn.pad_packed_sequence(
        nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 3]), batch_first=True)
    )


OTHERS = [
    spectrum, complex_attention, rotary, sparse, compressed, lists, nested, quantized, integers,
    linear_algebra, control, recurrent, convolution, packed,
]  # fmt: skip


@pytest.mark.parametrize("other", OTHERS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no_grad"])
def test_operations_nearby(other: Callable[[Tensor], Any], grad: bool) -> None:  # noqa: FBT001
    def run(model: nn.Module) -> Any:
        with torch.set_grad_enabled(grad):
            return model(torch.randn(2, 5, WIDTH))

    trace = undisturbed(partial(Around, other), run)
    assert any(call.replay_error == 0.0 for call in trace)
