"""`attnscope.check` on odd subjects: it never crashes, changes nothing, says what it can't do."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

import attnscope
from attnscope.errors import InputError, TargetError
from tests.checks.small import SelfAttention, noise

X = (2, 5, 16)


class InPlace(SelfAttention):
    def forward(self, x: Tensor) -> Any:
        with torch.no_grad():
            self.qkv.weight.mul_(0.9)
            self.out.weight.data = self.out.weight.data * 0.9
        return x.add_(self.attend(x))


class InferenceMode(SelfAttention):
    @torch.inference_mode()
    def forward(self, x: Tensor) -> Any:
        return self.attend(x)


class Remembers(SelfAttention):
    def __init__(self) -> None:
        super().__init__()
        self.past: Tensor | None = None
        self.recent: deque[Any] = deque(maxlen=2)
        self.steps = 0

    def forward(self, x: Tensor) -> Any:
        self.past = x if self.past is None else torch.cat((self.past, x), 1)
        self.recent.append(x)
        self.steps += 1
        self.seen = True
        return self.attend(self.past)[:, -x.shape[1] :]


class DrawsNumbers(SelfAttention):
    def forward(self, x: Tensor) -> Any:
        return self.attend(x + 0.1 * torch.randn_like(x))


@dataclass
class Output:
    hidden: Tensor
    steps: int = 3


class Returns(SelfAttention):
    """Returns something of its own making."""

    def __init__(self, make: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.make = make

    def forward(self, x: Tensor) -> Any:
        return self.make(self.attend(x))


class RefusesModes(SelfAttention):
    def train(self, mode: bool = True) -> Any:  # noqa: FBT001, FBT002  torch's own signature
        del mode
        raise RuntimeError("frozen")


class NamedOnly(SelfAttention):
    def forward(self, **named: Tensor) -> Any:  # type: ignore[override]
        return self.attend(named["hidden"])


class AnyNumber(SelfAttention):
    def forward(self, *tensors: Tensor) -> Any:
        return self.attend(tensors[0] + tensors[1])


class FromBatch(SelfAttention):
    def forward(self, batch: dict[str, Tensor]) -> Any:  # type: ignore[override]
        batch["hidden"] = self.attend(batch["x"])
        return batch


class HalfThere(SelfAttention):
    def forward(self, x: Tensor) -> Any:
        y = self.attend(x)
        return y[y.sum(-1) > 0]


def hooked() -> nn.Module:
    model = SelfAttention()
    model.register_forward_pre_hook(lambda _module, args: (args[0] * 1.0,))
    model.out.register_forward_hook(lambda _module, _args, output: output * 1.0)
    return model


def normed() -> nn.Module:
    model = SelfAttention()
    parametrizations.weight_norm(model.qkv)
    parametrizations.spectral_norm(model.out)
    return model


def twice() -> nn.Module:
    model = SelfAttention()
    return nn.Sequential(model, model)


def plain(q: Tensor, k: Tensor, v: Tensor) -> Any:
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v


def scaled(scale: float, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT * scale).softmax(-1) @ v


HEADS = (noise(2, 3, 5, 8), noise(2, 3, 5, 8, seed=1), noise(2, 3, 5, 8, seed=2))

ODD: dict[str, tuple[Callable[[], Any], Any]] = {
    "writes to parameters and inputs": (InPlace, noise(*X)),
    "inference mode": (InferenceMode, noise(*X)),
    "remembers": (Remembers, noise(*X)),
    "draws random numbers": (DrawsNumbers, noise(*X)),
    "returns an object": (lambda: Returns(Output), noise(*X)),
    "returns lists in lists": (lambda: Returns(lambda y: [y, [y, None], {"a": y}, 3]), noise(*X)),
    "returns nothing": (lambda: Returns(lambda _y: None), noise(*X)),
    "returns a number": (lambda: Returns(lambda y: int(y.sum() > 0)), noise(*X)),
    "returns text": (lambda: Returns(lambda _y: "text"), noise(*X)),
    "returns ids": (lambda: Returns(lambda y: y.argmax(-1)), noise(*X)),
    "returns one value": (lambda: Returns(lambda y: y.sum()), noise(*X)),
    "returns an array": (lambda: Returns(lambda y: y.detach().numpy()), noise(*X)),
    "returns no numbers": (lambda: Returns(lambda y: y * float("nan")), noise(*X)),
    "shape by value": (HalfThere, noise(*X)),
    "refuses modes": (RefusesModes, noise(*X)),
    "named arguments only": (NamedOnly, {"hidden": noise(*X)}),
    "any number of arguments": (AnyNumber, (noise(*X), noise(*X, seed=1))),
    "a batch that it writes to": (FromBatch, ({"x": noise(*X)},)),
    "hooks": (hooked, noise(*X)),
    "parametrizations": (normed, noise(*X)),
    "shared layers": (twice, noise(*X)),
    "half": (lambda: SelfAttention().half(), noise(*X).half()),
    "bfloat16": (lambda: SelfAttention().bfloat16(), noise(*X).bfloat16()),
    "double": (lambda: SelfAttention().double(), noise(*X).double()),
    "one sample, one token": (SelfAttention, noise(1, 1, 16)),
    "as many samples as tokens": (SelfAttention, noise(4, 4, 16)),
    "many samples": (SelfAttention, noise(300, 2, 16)),
    "strided inputs": (SelfAttention, noise(5, 2, 16).transpose(0, 1)),
    "expanded inputs": (SelfAttention, noise(1, 5, 16).expand(3, 5, 16)),
    "inputs with a gradient": (SelfAttention, noise(*X).requires_grad_()),
    "a function": (lambda: plain, HEADS),
    "a partial": (lambda: partial(scaled, 0.3), HEADS),
    "a method": (lambda: SelfAttention().attend, noise(*X)),
    "the kernel": (lambda: F.scaled_dot_product_attention, HEADS),
    "no attention": (lambda: nn.Linear(16, 4), noise(*X)),
    "a parameter as input": (SelfAttention, nn.Parameter(noise(*X))),
    "scripted": (lambda: torch.jit.trace(SelfAttention(), noise(*X)), noise(*X)),
}  # fmt: skip


def state_of(model: Any) -> Any:
    if not isinstance(model, nn.Module):
        return None
    values = {name: (id(t), t.clone()) for name, t in model.state_dict(keep_vars=True).items()}
    modes = [module.training for module in model.modules()]
    names = [sorted(vars(module)) for module in model.modules()]
    others = [(m.steps, [*m.recent], m.past) for m in model.modules() if isinstance(m, Remembers)]
    return values, (modes, names, others)


def same(state: Any, other: Any) -> bool:
    if state is None:
        return True
    (values, rest), (others, rest_after) = state, other
    return rest == rest_after and all(
        made == others[name][0] and torch.equal(tensor, others[name][1])
        for name, (made, tensor) in values.items()
    )


@pytest.mark.parametrize("name", ODD)
@pytest.mark.filterwarnings("ignore:.*jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Converting a tensor:torch.jit.TracerWarning")
def test_nothing_is_changed_and_nothing_raised(name: str) -> None:
    make, inputs = ODD[name]
    model = make()
    given = copy.deepcopy(inputs)
    before, drawn = state_of(model), torch.get_rng_state()
    report = attnscope.check(model, given, select=["AS102", "AS103", "AS106"])
    assert not [each for each in report.rules_skipped if each.failed]
    assert report.ok
    assert same(before, state_of(model))
    assert torch.equal(torch.get_rng_state(), drawn)
    torch.testing.assert_close(given, inputs, rtol=0, atol=0, equal_nan=True)


def test_what_was_not_possible_is_said() -> None:
    report = attnscope.check(Returns(lambda _y: None), noise(*X), select=["AS102"])
    assert "return what it computes" in report.rules_skipped[0].reason
    report = attnscope.check(SelfAttention(), noise(1, 5, 16), select=["AS102"])
    assert "give inputs with two or more" in report.rules_skipped[0].reason


def test_gradients_and_modes_are_as_before() -> None:
    model = SelfAttention().train()
    model(noise(*X)).sum().backward()
    gradient = model.out.weight.grad
    assert gradient is not None
    values = gradient.clone()
    attnscope.check(model, noise(*X))
    assert model.training
    assert model.out.weight.grad is gradient
    assert torch.equal(gradient, values)


class Lazy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q = nn.LazyLinear(8)

    def forward(self, x: Tensor) -> Any:
        return self.q(x)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (3, "an object of type int"),
        (Lazy(), "run the model once on its inputs"),
        (SelfAttention().to("meta"), "load its weights"),
    ],
)
def test_what_is_no_model_is_refused(model: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        attnscope.check(model, noise(*X))


def test_inputs_that_do_not_fit_are_refused_before_anything_is_run() -> None:
    with pytest.raises(InputError, match="missing a required argument"):
        attnscope.check(SelfAttention())
    with pytest.raises(TargetError, match="mend that line, or give other inputs"):
        attnscope.check(SelfAttention(), noise(2, 5, 7), select=["AS102"])


def test_nested_inputs_are_refused() -> None:
    ragged = torch.nested.nested_tensor([noise(5, 16), noise(3, 16)], layout=torch.jagged)
    with pytest.raises(InputError, match="x is a nested tensor"):
        attnscope.check(SelfAttention(), ragged)
