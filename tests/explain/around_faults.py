"""Faults around an attention, each as one change of a hand-written module, and its name."""

# Calling a module of torch returns Any; people return it as it is.
# mypy: disable-error-code=no-any-return

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tests.explain.llamas import Gpt, Llama

__all__ = ["FAULTS", "Fault"]

Method = Callable[..., Any]


@dataclass(frozen=True)
class Fault:
    """One fault: its key, the module it is put into, the stage where it shows first.

    methods: replaced; values: attributes that are set; says: what the text must contain.
    """

    key: str
    name: str
    style: str
    stage: str
    methods: Mapping[str, Method]
    says: tuple[str, ...] = ()
    call: int = 0
    values: Mapping[str, Any] = field(default_factory=dict)


def _rotated(change: Method) -> dict[str, Method]:
    return {"rotate": change}


def _only(name: str, change: Method) -> Method:
    """Change what `rotate` does to one of q, k, v."""

    def rotate(self: Llama, x: Tensor, which: str) -> Tensor:
        return change(self, x, which) if which == name else Llama.rotate(self, x, which)

    return rotate


def _mixed_angles(self: Llama, x: Tensor, name: str) -> Tensor:
    if name == "v":
        return x
    angles = self.angles(self.positions(x, name), x.shape[-1]).repeat_interleave(2, -1)
    first, second = x.chunk(2, -1)
    return x * angles.cos() + torch.cat((-second, first), -1) * angles.sin()


def _swapped_sine(self: Llama, x: Tensor, cos: Tensor, sin: Tensor, width: int) -> Tensor:
    return Llama.turned(self, x, sin, cos, width)


def _llama3(self: Llama, positions: Tensor, width: int) -> Tensor:
    step = self.base ** (-torch.arange(0, width, 2).float() / width)
    step = torch.where(step < 0.05, step / 8, step)
    return positions[..., None].float() * step


def _at(positions: Callable[[Tensor], Tensor], *names: str) -> dict[str, Method]:
    def places(_: Llama, x: Tensor, name: str) -> Tensor:
        counted = torch.arange(x.shape[2])
        return positions(counted) if name in (names or "qk") else counted

    return {"positions": places}


def _offset(*names: str, by: int) -> dict[str, Method]:
    return _at(lambda counted: counted + by, *names)


def _turned(x: Tensor) -> Tensor:
    width = x.shape[-1]
    angles = torch.arange(x.shape[2])[:, None] * 10000 ** (-torch.arange(0, width, 2) / width)
    first, second = x[..., ::2], x[..., 1::2]
    pair = (
        first * angles.cos() - second * angles.sin(),
        first * angles.sin() + second * angles.cos(),
    )
    return torch.stack(pair, -1).flatten(-2)


ROTARY = [
    Fault("rotary-base", "base", style, stage, {}, ("500000", "10000"), values={"base": 500000.0})
    for style, stage in (("llama", "q"), ("qwen", "k"))
] + [
    Fault("rotary-base", "small base", "llama", "k", {}, ("100 ", "10000"), values={"base": 100.0}),
    Fault("rotary-pairing", "interleaved", "llama", "q", {}, ("(2i, 2i + 1)", "(i, i + 4)"),
          values={"pairing": "interleaved"}),
    Fault("rotary-pairing", "interleaved", "qwen", "k", {}, ("(2i, 2i + 1)",),
          values={"pairing": "interleaved"}),
    Fault("rotary-pairing", "angles of the other", "llama", "k", _rotated(_mixed_angles),
          ("(i, i + 4)", "laid out")),
    Fault("rotary-share", "half", "llama", "q", {}, ("4 of 8", "0.5"), values={"share": 0.5}),
    Fault("rotary-share", "half", "qwen", "k", {}, ("4 of 8",), values={"share": 0.5}),
    Fault("rotary-missing", "none", "llama", "q", _rotated(lambda _, x, __: x), ("q and k",)),
    Fault("rotary-missing", "none on k", "llama", "k", _rotated(_only("k", lambda _, x, __: x)),
          ("on k,",)),
    Fault("rotary-missing", "none", "qwen", "k", _rotated(lambda _, x, __: x), ("q and k",)),
    Fault("rotary-scaling", "positions / 4", "llama", "q", _at(lambda p: p / 4), ("divided by 4",)),
    Fault("rotary-scaling", "slow pairs / 8", "llama", "k", {"angles": _llama3}, ("pair ",)),
    Fault("rotary-scaling", "positions / 2", "qwen", "k", _at(lambda p: p / 2), ("divided by 2",)),
    Fault("rotary-direction", "backwards", "llama", "q", _at(lambda p: -p), ("other way",)),
    Fault("rotary-direction", "sine for cosine", "llama", "k", {"turned": _swapped_sine},
          ("sine and cosine",)),
    Fault("rotary-direction", "backwards", "qwen", "k", _at(lambda p: -p), ("other way",)),
    Fault("positions-shifted", "by 3", "llama", "q", _offset("q", by=3), ("+3",)),
    Fault("positions-shifted", "by -1", "qwen", "k", _offset("k", by=-1), ("-1",)),
    Fault("positions-shifted", "reversed", "llama", "q", _at(lambda p: p.flip(0)), ("reversed",)),
    Fault("positions-shifted", "restarting", "llama", "k", _at(lambda p: p % 4),
          ("from token 4 on",)),
    Fault("rotary-on-v", "v too", "llama", "v",
          _rotated(lambda s, x, _: Llama.rotate(s, x, "q")), ("v is turned", "10000")),
    Fault("rotary-on-v", "v too", "qwen", "v",
          _rotated(lambda s, x, _: Llama.rotate(s, x, "q")), ("v is turned",)),
    Fault("rotary-twice", "twice", "llama", "q",
          _rotated(lambda s, x, n: Llama.rotate(s, Llama.rotate(s, x, n), n)), ("doubled",)),
    Fault("rotary-twice", "twice", "qwen", "k",
          _rotated(lambda s, x, n: Llama.rotate(s, Llama.rotate(s, x, n), n)), ("doubled",)),
    Fault("rotary-axis", "by head", "llama", "q",
          _rotated(lambda s, x, n: Llama.rotate(s, x.transpose(1, 2), n).transpose(1, 2)),
          ("axis of 4", "axis of 11")),
    Fault("rotary-axis", "by head", "qwen", "k",
          _rotated(lambda s, x, n: Llama.rotate(s, x.transpose(1, 2), n).transpose(1, 2)),
          ("axis of 2",)),
    Fault("rotary-extra", "turned", "gpt", "q", {"split": lambda s, x: _turned(Gpt.split(s, x))},
          ("base 10000",)),
    Fault("rotary-extra", "turned", "encoder", "k", {}, ("base 10000",),
          values={"turn": _turned}),
]  # fmt: skip


def _fused(order: str, how: str = "blocks") -> dict[str, Method]:
    def parts(self: Gpt, x: Tensor) -> tuple[Tensor, ...]:
        pieces: Sequence[Tensor] = x.chunk(3, -1)
        if how == "heads":
            pieces = [t.flatten(2) for t in x.unflatten(-1, (self.heads, 3, -1)).unbind(3)]
        if how == "features":
            pieces = [t.flatten(2) for t in x.unflatten(-1, (self.heads, -1, 3)).unbind(-1)]
        found = dict(zip(order, pieces, strict=True))
        return found["q"], found["k"], found["v"]

    return {"parts": parts}


def _taken(**names: str) -> dict[str, Method]:
    """Compute q, k, v of Llama with the weights of others; all have as many heads here."""

    def project(self: Llama, x: Tensor, layer: Any, name: str) -> Tensor:
        return Llama.project(self, x, layer, names.get(name, name))

    return {"project": project}


def _interleaved_weights(self: Llama, layer: Any, name: str) -> Tensor:
    weight = Llama.weight(self, layer, name)
    if name == "v":
        return weight
    return weight.view(-1, 2, self.size // 2, 32).transpose(1, 2).reshape(weight.shape)


def _transposed(name: str, change: Callable[[Tensor], Tensor]) -> dict[str, Method]:
    def weight(self: Llama, layer: Any, which: str) -> Tensor:
        found = Llama.weight(self, layer, which)
        return change(found) if which == name else found

    return {"weight": weight}


def _square(_: Gpt, x: Tensor, layer: Any) -> Tensor:
    weight = layer.weight
    return x @ (weight.T if weight.shape[0] == weight.shape[1] else weight) + layer.bias


def _thirds(_: Gpt, x: Tensor, layer: Any) -> Tensor:
    weight = layer.weight
    if weight.shape == (32, 96):
        weight = torch.cat([third.T for third in weight.chunk(3, 1)], 1)
    return x @ weight + layer.bias


PROJECTIONS = [
    Fault("q-k-swapped", "crossed", "cross", "q", {}, ("q is computed with",),
          values={"layers": "kqv"}),
    Fault("q-k-swapped", "crossed", "cross", "k", {}, ("k is computed with",),
          values={"layers": "qqv"}),
    Fault("k-for-v", "v is k", "llama", "v", _taken(v="k"), ("computes as k",)),
    Fault("k-for-v", "v is k", "cross", "v", {}, ("computes as k",), values={"layers": "qkk"}),
    Fault("k-for-v", "v is k", "gpt", "v",
          {"parts": lambda _, x: (*x.chunk(3, -1)[:2], x.chunk(3, -1)[1])},
          ("computes as k",)),
    Fault("split-order", "k q v", "gpt", "q", _fused("kqv"), ("[k | q | v]",)),
    Fault("split-order", "v q k", "gpt", "k", _fused("vqk"), ("[v | q | k]",)),
    Fault("split-order", "per head", "gpt", "k", _fused("qkv", "heads"), ("(heads, 3, head_dim)",)),
    Fault("split-order", "per feature", "gpt", "v", _fused("qkv", "features"),
          ("(heads, head_dim, 3)",)),
    Fault("split-order", "k v swapped", "encoder", "v", {}, ("[q | v | k]",),
          values={"order": (0, 2, 1)}),
    Fault("rotary-pairing", "weights laid out", "llama", "q", {"weight": _interleaved_weights},
          ("laid out", "(2i, 2i + 1)")),
    Fault("heads-permuted", "reversed", "llama", "q",
          {"split": lambda s, x, h, n: Llama.split(s, x, h, n).flip(1)}, ("(3, 2, 1, 0)",)),
    Fault("heads-permuted", "turned", "gpt", "k", {"split": lambda s, x: Gpt.split(s, x).flip(1)},
          ("(3, 2, 1, 0)",)),
    Fault("heads-permuted", "at the output", "llama", "output",
          {"merge": lambda s, x: Llama.merge(s, x[:, [2, 0, 3, 1]])}, ("(2, 0, 3, 1)",)),
    Fault("heads-by-view", "viewed", "llama", "q",
          {"split": lambda s, x, h, _: x.view(x.shape[0], h, -1, s.size)}, ("(2, 4, 11, 8)",)),
    Fault("heads-by-view", "viewed", "gpt", "k",
          {"split": lambda s, x: x.reshape(x.shape[0], s.heads, x.shape[1], -1)}, ("viewed",)),
    Fault("heads-by-view", "head_dim outermost", "gpt", "q",
          {"split": lambda s, x: x.unflatten(-1, (-1, s.heads)).permute(0, 3, 1, 2)},
          ("(head_dim, heads) = (8, 4)",)),
    Fault("heads-by-view", "viewed", "cross", "v",
          {"split": lambda _, x: x.view(x.shape[0], 3, -1, 8)},
          ("viewed",)),
    Fault("heads-by-view", "lengths first", "gpt", "q",
          {"split": lambda s, x: x.transpose(0, 1).reshape(x.shape[0], s.heads, x.shape[1], -1)},
          ("(11, 2, 32)", "(batch, heads, length, head_dim)")),
    Fault("heads-by-view", "heads first", "llama", "k",
          {"split": lambda s, x, h, _: x.reshape(h, x.shape[0], -1, s.size).transpose(0, 1)},
          ("(heads, batch, length, head_dim)",)),
    Fault("merge-by-view", "lengths first", "llama", "output",
          {"merge": lambda _, x: x.reshape(x.shape[2], x.shape[0], -1).transpose(0, 1)},
          ("(batch, heads, length, head_dim)", "merges (length, batch, heads, head_dim)")),
    Fault("merge-by-view", "viewed", "llama", "output",
          {"merge": lambda _, x: x.reshape(x.shape[0], x.shape[2], -1)}, ("(2, 4, 11, 8)",)),
    Fault("merge-by-view", "viewed", "gpt", "output",
          {"merge": lambda _, x: x.reshape(x.shape[0], x.shape[2], -1)}, ("view",)),
    Fault("merge-by-view", "features first", "gpt", "output",
          {"merge": lambda _, x: x.permute(0, 2, 3, 1).flatten(2)}, ("head_dim, heads",)),
    Fault("weight-transposed", "square", "llama", "q", _transposed("q", lambda w: w.T),
          ("q_proj",)),
    Fault("weight-transposed", "reshaped", "llama", "k",
          _transposed("k", lambda w: w.T.reshape(w.shape)), ("k_proj", "reshaped")),
    Fault("weight-transposed", "output", "gpt", "output", {"biased": _square}, ("c_proj",)),
    Fault("weight-transposed", "each third", "gpt", "v", {"biased": _thirds}, ("3 blocks",)),
    Fault("projection-bias", "missing", "gpt", "q", {"biased": lambda _, x, m: x @ m.weight},
          ("c_attn.bias", "missing")),
    Fault("projection-bias", "missing", "gpt", "output", {"biased": lambda _, x, m: x @ m.weight},
          ("c_proj.bias", "missing")),
    Fault("projection-bias", "doubled", "gpt", "k",
          {"biased": lambda _, x, m: x @ m.weight + 2 * m.bias}, ("twice",)),
    Fault("projection-bias", "missing", "encoder", "v", {}, ("in_proj_bias", "missing"),
          values={"biased": False}),
    Fault("projection-bias", "doubled", "cross", "q", {}, ("q.bias", "twice"),
          values={"again": "q"}),
    Fault("wrong-stream", "keys", "cross", "input_k", {"sources": lambda _, x, __: (x, x, x)},
          ("keys are computed",)),
    Fault("wrong-stream", "queries", "cross", "input", {"sources": lambda _, __, m: (m, m, m)},
          ("queries are computed",)),
]  # fmt: skip

FAULTS = ROTARY + PROJECTIONS
