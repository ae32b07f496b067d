"""What is changed in place after a call leaves what was recorded of it alone."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnscope.capture import record
from attnscope.errors import ReplayError
from tests.capture.promise.models import ATTENTIONS
from tests.capture.promise.runs import undisturbed

every_attention = pytest.mark.parametrize("attend", ATTENTIONS.values(), ids=ATTENTIONS)

CHANGES: dict[str, Callable[[Tensor], Any]] = {
    "mul_": lambda x: x.mul_(2),
    "operator": lambda x: operator.iadd(x, 1),  # type: ignore[no-untyped-call]
    "copy_": lambda x: x.copy_(torch.zeros_like(x)),
    "zero_": lambda x: x.zero_(),
    "fill_": lambda x: x.fill_(3.0),
    "setitem": lambda x: x.__setitem__((slice(None), 0), 7.0),
    "setitem mask": lambda x: x.__setitem__(x > 0, 7.0),
    "masked_fill_": lambda x: x.masked_fill_(x > 0, 7.0),
    "index_copy_": lambda x: x.index_copy_(2, torch.tensor([0]), torch.ones_like(x[:, :, :1])),
    "index_put_": lambda x: x.index_put_((torch.tensor([0]),), torch.tensor(5.0)),
    "index_fill_": lambda x: x.index_fill_(1, torch.tensor([0]), 5.0),
    "scatter_": lambda x: x.scatter_(2, torch.zeros(x.shape, dtype=torch.int64), 4.0),
    "put_": lambda x: x.put_(torch.tensor([0, 3]), torch.tensor([9.0, 9.0])),
    "view": lambda x: x.view(-1).mul_(2),
    "slice": lambda x: x[:, :, 1:2].mul_(2),
    "transposed": lambda x: x.mT.add_(1),
    "detached": lambda x: x.detach().mul_(2),
    "data": lambda x: x.data.mul_(2),
    "alias": lambda x: x.as_strided((3,), (1,)).zero_(),
    "unbound": lambda x: x.unbind(0)[0].zero_(),
    "out": lambda x: torch.mul(x, 2, out=x),
    "out of a view": lambda x: torch.add(x[0], 1, out=x[0]),
    "foreach": lambda x: torch._foreach_mul_([torch.ones(2), x], 2.0),
    "foreach second": lambda x: torch._foreach_add_([x], [torch.ones_like(x)]),
    "foreach zero": lambda x: torch._foreach_zero_([x]),
    "foreach copy": lambda x: torch._foreach_copy_([x], [torch.zeros_like(x)]),
    "inplace argument": lambda x: F.relu(x, inplace=True),
    "module": nn.ReLU(inplace=True),
    "dropout": lambda x: F.dropout(x, 0.9, inplace=True),
    "random": lambda x: x.normal_(),
    "init": lambda x: nn.init.constant_(x, 3.0),
    "resize_": lambda x: x.resize_(1, 1, 2, 2),
    "set data": lambda x: setattr(x, "data", torch.zeros(3)),
    "numpy": lambda x: x.detach().numpy().fill(3.0),
    "square root": lambda x: torch.abs_(x).sqrt_(),
    "swap": lambda x: x[0].copy_(x[1].clone()),
    "sort out": lambda x: torch.sort(x, out=(x, torch.empty(0, dtype=torch.int64))),
    "squeeze_": lambda x: x.transpose_(1, 2),
    "normalize": lambda x: F.normalize(x, dim=-1, out=x),
    "renorm_": lambda x: x.renorm_(2, 0, 0.1),
    "lerp_": lambda x: x.lerp_(torch.zeros_like(x), 0.5),
    "addcmul_": lambda x: x.addcmul_(x, x, value=2.0),
    "storage": lambda x: x.untyped_storage().fill_(0),  # type: ignore[attr-defined]
    "memory of numpy": lambda x: torch.from_numpy(x.detach().numpy()).zero_(),
    "aten": lambda x: torch.ops.aten.mul_.Tensor(x, torch.tensor(2.0)),
}


class Changes(nn.Module):
    """Attention whose tensors are changed afterwards."""

    def __init__(self, attend: Callable[..., Tensor], change: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.attend, self.change = attend, change
        self.which = "q"

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
        """Attend, then change one of the four tensors."""
        q, k, v = q * 1.0, k * 1.0, v * 1.0
        context = self.attend(q, k, v, 0.0, training=False)
        self.change({"q": q, "k": k, "v": v, "context": context}[self.which])
        return [q, k, v, context]


def inputs() -> list[Tensor]:
    torch.manual_seed(5)
    return [torch.randn(2, 3, 4, 6) for _ in "qkv"]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@every_attention
def test_changed_afterwards(change: Callable[[Tensor], Any], attend: Callable[..., Tensor]) -> None:
    with torch.no_grad():
        for which in ("q", "k", "v", "context"):

            def build(which: str = which) -> nn.Module:
                model = Changes(attend, change)
                model.which = which
                return model

            changed = build()(*inputs())["qkvc".index(which[0])]
            trace = undisturbed(build, lambda model: model(*inputs()))
            told = [trace[0].q, trace[0].k, trace[0].v, trace[0].context()]
            q, k, v = inputs()
            expected = [q, k, v, attend(q, k, v, 0.0, training=False)]
            original = expected["qkvc".index(which[0])]
            assert changed.shape != original.shape or not torch.equal(changed, original)
            for name, (mine, wanted) in zip("qkvc", zip(told, expected, strict=True), strict=True):
                assert torch.equal(mine, wanted), (which, name)


def test_changed_after_the_recording() -> None:
    q, k, v = inputs()
    with record(None) as trace:
        ATTENTIONS["by hand"](q, k, v, 0.0, training=False)
    q.add_(1)
    with pytest.raises(ReplayError, match="changed in place"):
        _ = trace[0].q


@every_attention
def test_a_change_that_no_mode_sees_is_told(attend: Callable[..., Tensor]) -> None:
    """PyTorch hands `Tensor.set_` to nobody; the version counter gives it away."""

    def build() -> nn.Module:
        return Changes(attend, lambda x: x.set_(torch.zeros(3).untyped_storage()))

    with torch.no_grad():
        trace = undisturbed(build, lambda model: model(*inputs())[1:])
    with pytest.raises(ReplayError, match="out of attnscope's sight"):
        _ = trace[0].q


class StaticCache(nn.Module):
    """One token at a time; keys and values are written into buffers made once."""

    keys: Tensor
    values: Tensor

    def __init__(self, attend: Callable[..., Tensor], write: str) -> None:
        super().__init__()
        self.attend, self.write = attend, write
        self.qkv = nn.Linear(6, 18)
        self.register_buffer("keys", torch.zeros(2, 1, 8, 6))
        self.register_buffer("values", torch.zeros(2, 1, 8, 6))
        self.seen = 0

    def forward(self, x: Tensor) -> Tensor:
        """Attend from x (batch, 1, tokens, width) to all that came before."""
        q, k, v = self.qkv(x).chunk(3, -1)
        at = torch.arange(self.seen, self.seen + x.shape[2])
        for memory, new in ((self.keys, k), (self.values, v)):
            if self.write == "slice":
                memory[:, :, at[0] : at[-1] + 1] = new
            elif self.write == "index_copy_":
                memory.index_copy_(2, at, new)
            else:
                memory[:, :, at] = new
        self.seen += x.shape[2]
        k, v = self.keys[:, :, : self.seen], self.values[:, :, : self.seen]
        return self.attend(q, k, v, 0.0, training=False)


@pytest.mark.parametrize("write", ["slice", "index_copy_", "index"])
@every_attention
def test_static_cache(write: str, attend: Callable[..., Tensor]) -> None:
    def run(model: Any) -> Any:
        with torch.no_grad():
            return [model(torch.randn(2, 1, 1, 6)) for _ in range(4)], model.keys.clone()

    trace = undisturbed(lambda: StaticCache(attend, write), run)
    assert [(call.keys, call.step) for call in trace] == [(n + 1, n) for n in range(4)]
    last = trace[3].k
    for call in trace:
        assert torch.equal(call.k, last[:, :, : call.keys])
        assert call.replay_error is not None
        assert call.replay_error < 1e-5
