"""One style of attention beside what was seen of it: what the tests of styles compare."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor, nn

from attnscope.calls import Call, Recipe, Trace
from attnscope.calls.call import TensorName
from attnscope.calls.tolerance import replay, rounding, unit_roundoff
from attnscope.capture import record
from attnscope.capture import trace as trace_of
from tests.styles import LookAlike, Style, Truth

Name = Literal["q", "k", "v", "weights", "context"]
NAMES: tuple[Name, ...] = ("q", "k", "v", "weights", "context")


@dataclass(frozen=True, slots=True)
class Seen:
    """A run with attnscope and the same run without: outputs, random states, trace, truth.

    warned: what reading the recipe of the last call warned about.
    """

    style: Style
    trace: Trace
    plain: list[Tensor]
    watched: list[Tensor]
    random: tuple[Tensor, Tensor]
    truth: Truth
    warned: tuple[str, ...]

    @property
    def parts(self) -> list[Call]:
        """The calls that the style's facts speak of: the last, or the last one's pieces."""
        several = len(self.trace) == self.style.calls * self.style.pieces
        return self.trace.calls[-self.style.pieces if several else -1 :]

    @property
    def call(self) -> Call:
        """The call that the style's facts speak of."""
        return self.trace[-1]

    @property
    def recipe(self) -> Recipe:
        """Its recipe."""
        return self.call.recipe

    @property
    def narrowest(self) -> torch.dtype:
        """The type with the fewest digits that the call's tensors or the corpus's truth have."""
        names = [name for name in NAMES if self.has(name)]
        types = [t.dtype for name in names for t in (self.value(name), getattr(self.truth, name))]
        return max(types, key=unit_roundoff)

    @property
    def tolerance(self) -> float:
        """How far a tensor of the call may be from the truth, relative to its largest entry."""
        return replay(self.narrowest, self.style.keys, self.style.head_dim)

    @property
    def rounding(self) -> float:
        """How far a number of the recipe may be from the truth, relatively."""
        return rounding(self.narrowest)

    def has(self, name: Name) -> bool:
        """Whether the truth says this tensor, of all pieces together where there are several."""
        whole = len(self.parts) == 1 or name in {"q", "k", "v"}
        return whole and getattr(self.truth, name) is not None

    def value(self, name: Name) -> Tensor:
        """What the call says, its pieces put together along the keys."""
        values = [part.evidence.value(name) for part in self.parts]
        return torch.cat(values, dim=2) if name in {"k", "v"} else values[0]


def run(module: nn.Module, inputs: Any) -> Any:
    """Call a module with a tuple or a dict."""
    return module(**inputs) if isinstance(inputs, dict) else module(*inputs)


def tensors(output: Any) -> list[Tensor]:
    """The tensors of an output."""
    items = output if isinstance(output, (tuple, list)) else [output]
    return [item for item in items if isinstance(item, Tensor)]


@cache
def seen(style: Style) -> Seen:
    """Run a style twice from the same random state, the second time with attnscope."""
    module, inputs = style.build(), style.inputs()
    torch.manual_seed(5)
    plain = run(module, inputs)
    before = torch.get_rng_state()
    module, inputs = style.build(), style.inputs()
    torch.manual_seed(5)
    trace = trace_of(module, **inputs) if isinstance(inputs, dict) else trace_of(module, *inputs)
    random = before, torch.get_rng_state()
    assert style.truth is not None
    with torch.no_grad():
        truth = style.truth(style.build(), style.inputs())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _ = [call.recipe for call in trace.calls[-1:]]
    warned = tuple(str(warning.message) for warning in caught)
    return Seen(style, trace, tensors(plain), tensors(trace.output), random, truth, warned)


@cache
def looked(alike: LookAlike) -> Trace:
    """Run a look-alike with attnscope."""
    module, inputs = alike.build(), alike.inputs()
    return trace_of(module, **inputs) if isinstance(inputs, dict) else trace_of(module, *inputs)


def trained(style: Style) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Yield name, seen and true gradient of q, k, v, weights, scores and context.

    The true ones come from autograd through the style's own truth; that of the scores follows
    from that of the weights, which a softmax made.
    """
    module, inputs = style.build(), style.inputs()
    with record(module) as trace:
        output = tensors(run(module, inputs))[0]
        factor = torch.randn(output.shape, generator=torch.Generator().manual_seed(7))
        (output * factor).sum().backward()
    module, inputs = style.build(), style.inputs()
    assert style.truth is not None
    assert style.output is not None
    truth = style.truth(module, inputs)
    loss = (style.output(module, truth) * factor).sum()
    found = torch.autograd.grad(loss, [getattr(truth, name) for name in NAMES])
    wanted: dict[TensorName, Tensor] = dict(zip(NAMES, found, strict=True))
    weights = truth.weights.detach()
    inner = (wanted["weights"] * weights).sum(-1, keepdim=True)
    wanted["scores"] = weights * (wanted["weights"] - inner)
    for name, gradient in wanted.items():
        yield name, trace[-1].grad(name), gradient
