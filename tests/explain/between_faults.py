"""Faults between one attention and the next: norms, residuals, positions, activations."""

# Calling a module of torch returns Any; people return it as it is.
# mypy: disable-error-code=no-any-return

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.explain.around_faults import Fault
from tests.explain.llamas import Gpt, HandEncoder, Llama, Qwen, sinusoid

__all__ = ["BETWEEN_FAULTS"]


def _late_norm(self: Qwen, x: Tensor, layer: Any, name: str) -> Tensor:
    heads = self.heads if name == "q" else self.kv_heads
    made = self.split(F.linear(x, self.weight(layer, name)), heads, name)
    return self.headed(self.rotate(made, name), layer, name)


def _wide_norm(self: Qwen, x: Tensor, layer: Any, name: str) -> Tensor:
    if name == "v":
        return x
    weight = getattr(layer.self_attn, f"{name}_norm").weight
    return x * torch.rsqrt(x.pow(2).mean((1, 3), keepdim=True) + self.eps) * weight


def _gpt_post(self: Gpt, x: Tensor, layer: Any) -> Tensor:
    x = self.normed(x + self.attend(x, layer.attn), layer.ln_1)
    return self.normed(x + _gpt_fed(self, x, layer), layer.ln_2)


def _gpt_fed(self: Gpt, x: Tensor, layer: Any) -> Tensor:
    return self.biased(self.act(self.biased(x, layer.mlp.c_fc)), layer.mlp.c_proj)


def _gpt(
    first: Callable[[Gpt, Tensor, Any], Tensor], second: Callable[[Gpt, Tensor, Any], Tensor]
) -> dict[str, Callable[..., Any]]:
    """Put a fault into either half of a block."""
    return {"block": lambda self, x, layer: second(self, first(self, x, layer), layer)}


def _half(self: Gpt, x: Tensor, layer: Any) -> Tensor:
    return x + self.attend(self.normed(x, layer.ln_1), layer.attn)


def _rest(self: Gpt, x: Tensor, layer: Any) -> Tensor:
    return x + _gpt_fed(self, self.normed(x, layer.ln_2), layer)


def _after_norm(self: Gpt, x: Tensor, layer: Any) -> Tensor:
    x = self.normed(x, layer.ln_1)
    return x + self.attend(x, layer.attn)


def _parallel(self: Gpt, x: Tensor, layer: Any) -> Tensor:
    return _half(self, x, layer) + _gpt_fed(self, self.normed(x, layer.ln_2), layer)


def _parallel_llama(self: Llama, x: Tensor, layer: Any) -> Tensor:
    mlp, inner = layer.mlp, self.normed(x, layer.post_attention_layernorm.weight)
    hidden = self.act(F.linear(inner, mlp.gate_proj.weight)) * F.linear(inner, mlp.up_proj.weight)
    attended = self.attend(self.normed(x, layer.input_layernorm.weight), layer)
    return x + attended + F.linear(hidden, mlp.down_proj.weight)


def _encoder_inner(self: HandEncoder, x: Tensor) -> Tensor:
    x = self.normed(x + self.attended(x), self.layer.norm1)
    return x + self.normed(self.fed(x), self.layer.norm2)


def _encoder_unnormed(self: HandEncoder, x: Tensor) -> Tensor:
    x = self.normed(x + self.attended(x), self.layer.norm1)
    return x + self.fed(x)


def _encoder_pre(self: HandEncoder, x: Tensor) -> Tensor:
    x = x + self.attended(self.normed(x, self.layer.norm1))
    return x + self.fed(self.normed(x, self.layer.norm2))


def _encoder_doubled(self: HandEncoder, x: Tensor) -> Tensor:
    x = self.normed(x + x + self.attended(x), self.layer.norm1)
    return self.normed(x + self.fed(x), self.layer.norm2)


def _encoder_without(self: HandEncoder, x: Tensor) -> Tensor:
    x = self.normed(self.attended(x), self.layer.norm1)
    return self.normed(x + self.fed(x), self.layer.norm2)


def _encoder_first_unnormed(self: HandEncoder, x: Tensor) -> Tensor:
    x = x + self.attended(x)
    return self.normed(x + self.fed(x), self.layer.norm2)


def _after_second(self: Gpt, x: Tensor, layer: Any) -> Tensor:
    x = self.normed(x, layer.ln_2)
    return x + _gpt_fed(self, x, layer)


def _layer(eps: float) -> dict[str, Callable[..., Any]]:
    return {
        "normed": lambda _, x, layer: F.layer_norm(x, x.shape[-1:], layer.weight, layer.bias, eps)
    }


def _annotated(_: Gpt, x: Tensor, layer: Any) -> Tensor:
    spread = x.std(-1, keepdim=True) + 1e-5
    return layer.weight * (x - x.mean(-1, keepdim=True)) / spread + layer.bias


def _no_norm(_: Any, x: Tensor, __: Any) -> Tensor:
    return x


def _unprojected(self: Gpt, x: Tensor, layer: Any) -> Tensor:
    q, k, v = (self.split(part) for part in self.parts(self.biased(x, layer.c_attn)))
    return self.merge(F.scaled_dot_product_attention(q, k, v, is_causal=True))


def _unprojected_encoder(self: HandEncoder, x: Tensor) -> Tensor:
    attention = self.layer.self_attn
    made = F.linear(x, attention.in_proj_weight, attention.in_proj_bias)
    q, k, v = made.view(*x.shape[:2], 3, 3, 8).permute(2, 0, 3, 1, 4)
    return ((q @ k.mT / 8**0.5).softmax(-1) @ v).transpose(1, 2).reshape(x.shape)


NORMS = [
    Fault("qk-norm", "none", "qwen", "q", {"headed": lambda _, x, *__: x}, ("missing", "q_norm")),
    Fault("qk-norm", "over all heads", "qwen", "q", {"headed": _wide_norm},
          ("all heads together",)),
    Fault("qk-norm", "over all heads", "qwen", "k", {"headed": _wide_norm}, ("2 heads of 8",)),
    Fault("norm-place", "after rotary", "qwen", "q", {"project": _late_norm},
          ("after the rotary",)),
    Fault("norm-place", "after rotary", "qwen", "k", {"project": _late_norm},
          ("after the rotary",)),
    Fault("norm-place", "post", "gpt", "input", {"block": _gpt_post}, ("after the attention",)),
    Fault("norm-place", "pre", "encoder", "input", {"block": _encoder_pre},
          ("before the attention",)),
    Fault("norm-place", "inside", "encoder", "model", {"block": _encoder_inner}, ("norm2",)),
    Fault("norm-place", "residual after it", "gpt", "input", _gpt(_after_norm, _rest),
          ("residual addition",), call=1),
    Fault("norm-place", "second after", "gpt", "model",
          _gpt(_half, lambda s, x, m: s.normed(x + _gpt_fed(s, x, m), m.ln_2)),
          ("ln_2", "after the residual", "1 more place")),
    Fault("norm-place", "residual after it", "gpt", "model", _gpt(_half, _after_second),
          ("residual addition", "after the norm"), call=1),
    Fault("norm-missing", "first", "encoder", "model", {"block": _encoder_first_unnormed},
          ("norm1", "missing")),
    Fault("norm-eps", "0.1 of heads", "qwen", "k", {}, ("0.1",), values={"eps": 0.1}),
    Fault("norm-missing", "all", "llama", "input", {"normed": _no_norm}, ("input_layernorm",)),
    Fault("norm-missing", "second", "gpt", "input",
          _gpt(_half, lambda s, x, m: x + _gpt_fed(s, x, m)), ("ln_2", "missing"), call=1),
    Fault("norm-missing", "second", "encoder", "model", {"block": _encoder_unnormed},
          ("norm2",)),
    Fault("norm-eps", "1e-5", "llama", "input", {}, ("1e-05", "1e-06"), values={"eps": 1e-5}),
    Fault("norm-eps", "1e-3", "gpt", "input", _layer(1e-3), ("0.001", "1e-05")),
    Fault("norm-eps", "1e-3 everywhere", "gpt", "model", _layer(1e-3), ("0.001", "2 more places")),
    Fault("norm-eps", "1e-3", "encoder", "model", _layer(1e-3), ("0.001",)),
    Fault("norm-eps", "1e-4 of heads", "qwen", "q", {}, ("0.0001",), values={"eps": 1e-4}),
    Fault("norm-kind", "layer", "llama", "input",
          {"normed": lambda s, x, w: F.layer_norm(x, x.shape[-1:], w, None, s.eps)},
          ("LayerNorm (mean subtracted) where",)),
    Fault("norm-kind", "rms", "gpt", "input",
          {"normed": lambda _, x, m: F.rms_norm(x, x.shape[-1:], m.weight, 1e-5) + m.bias},
          ("RMSNorm (mean not subtracted) where",)),
    Fault("norm-kind", "unbiased", "gpt", "input", {"normed": _annotated}, ("n − 1",)),
    Fault("norm-weight", "from one", "llama", "input",
          {"normed": lambda s, x, w: Llama.normed(s, x, 1 + w)}, ("1 + ",)),
    Fault("norm-weight", "none", "gpt", "input",
          {"normed": lambda _, x, m: F.layer_norm(x, x.shape[-1:], None, m.bias, 1e-5)},
          ("left out",)),
    Fault("norm-weight", "no bias", "gpt", "input",
          {"normed": lambda _, x, m: F.layer_norm(x, x.shape[-1:], m.weight, None, 1e-5)},
          ("ln_1.bias", "left out")),
]  # fmt: skip

RESIDUALS = [
    Fault("residual-missing", "both", "llama", "input", {"added": lambda _, __, b: b},
          ("only the branch", "1 more place"), call=1),
    Fault("residual-missing", "of the second", "gpt", "input",
          _gpt(_half, lambda s, x, m: _gpt_fed(s, s.normed(x, m.ln_2), m)),
          ("mlp.c_proj",), call=1),
    Fault("residual-missing", "both", "encoder", "model", {"added": lambda _, __, b: b},
          ("only the branch",)),
    Fault("residual-doubled", "first", "gpt", "input",
          _gpt(lambda s, x, m: x + _half(s, x, m), _rest), ("twice", "attn.c_proj"), call=1),
    Fault("residual-doubled", "both", "llama", "input", {"added": lambda _, x, b: 2 * x + b},
          ("twice",), call=1),
    Fault("residual-doubled", "with the branch", "gpt", "input",
          _gpt(lambda s, x, m: x + (s.attend(s.normed(x, m.ln_1), m.attn) + x), _rest),
          ("residual added twice",), call=1),
    Fault("residual-doubled", "before the norm", "encoder", "model",
          {"block": _encoder_doubled}, ("residual added twice",)),
    Fault("residual-missing", "before the norm", "encoder", "model",
          {"block": _encoder_without}, ("residual missing",)),
    Fault("residual-sign", "minus", "llama", "input", {"added": lambda _, x, b: x - b},
          ("subtracted",), call=1),
    Fault("residual-sign", "minus", "encoder", "model", {"added": lambda _, x, b: x - b},
          ("subtracted",)),
    Fault("residual-place", "parallel", "gpt", "input", {"block": _parallel}, ("ln_2",), call=1),
    Fault("residual-place", "parallel", "llama", "input", {"block": _parallel_llama},
          ("post_attention_layernorm",), call=1),
    Fault("activation", "gelu", "llama", "input", {"act": lambda _, x: F.gelu(x)},
          ("gelu where the reference has silu",), call=1),
    Fault("activation", "exact", "gpt", "input", {"act": lambda _, x: F.gelu(x)},
          ("gelu where the reference has gelu (tanh)",), call=1),
    Fault("activation", "everywhere", "gpt", "model", {"act": lambda _, x: F.relu(x)},
          ("relu", "1 more place")),
    Fault("dropout", "active", "gpt", "input",
          {"block": lambda s, x, m: F.dropout(Gpt.block(s, x, m), 0.1)}, ("0.1",), call=1),
    Fault("dropout", "active", "llama", "model",
          {"added": lambda _, x, b: x + F.dropout(b, 0.2)}, ("0.2",)),
    Fault("factor", "branch * 0.3", "llama", "input", {"added": lambda _, x, b: x + b * 0.3},
          ("0.3",), call=1),
    Fault("factor", "branch * 0.3", "gpt", "input",
          _gpt(_half, lambda s, x, m: x + 0.3 * _gpt_fed(s, s.normed(x, m.ln_2), m)), ("0.3",),
          call=1),
    Fault("factor", "branch * 0.5 before a norm", "encoder", "model",
          {"fed": lambda s, x: 0.5 * HandEncoder.fed(s, x)}, ("0.5",)),
    Fault("residual-missing", "no feed-forward", "encoder", "model", {"fed": lambda _, x: 0 * x},
          ("only the residual",)),
    Fault("piece-missing", "output projection", "gpt", "input", {"attend": _unprojected},
          ("attn.c_proj left out",), call=1),
    Fault("piece-missing", "output projection", "encoder", "model",
          {"attended": _unprojected_encoder},
          ("out_proj left out",)),
]  # fmt: skip


def _cut(begin: int) -> dict[str, Callable[..., Any]]:
    return {"places": lambda s, length: s.own.transformer.wpe.weight[begin : begin + length]}


def _encoded(table: Callable[[HandEncoder, Tensor], Tensor]) -> dict[str, Callable[..., Any]]:
    return {"placed": lambda s, x: x + table(s, s.table[: x.shape[1]])}


POSITIONS = [
    Fault("positions-shifted", "from 2", "gpt", "input", _cut(2), ("+2",)),
    Fault("positions-shifted", "from 1", "gpt", "input", _cut(1), ("+1",)),
    Fault("positions-missing", "none", "gpt", "input",
          {"embed": lambda s, i: F.embedding(i, s.own.transformer.wte.weight)}, ("missing",)),
    Fault("positions-missing", "none", "encoder", "input", {"placed": lambda _, x: x},
          ("width 24",)),
    Fault("position-table", "base", "encoder", "input",
          _encoded(lambda _, t: sinusoid(t.shape[0], 24, 1e3)),
          ("1000", "10000")),
    Fault("position-table", "concatenated", "encoder", "input",
          _encoded(lambda _, t: torch.cat((t[:, ::2], t[:, 1::2]), -1)), ("concatenated",)),
    Fault("position-table", "swapped", "encoder", "input",
          _encoded(lambda _, t: torch.stack((t[:, 1::2], t[:, ::2]), -1).flatten(1)), ("swapped",)),
    Fault("position-table", "from 1", "encoder", "input",
          {"placed": lambda s, x: x + s.table[1 : x.shape[1] + 1]}, ("the first at 1",)),
    Fault("position-table", "along the batch", "gpt", "input",
          {"embed": lambda s, i: F.embedding(i, s.own.transformer.wte.weight)
           + s.places(i.shape[0]).unsqueeze(1)}, ("axis of 2", "axis of 11")),
    Fault("embedding-scale", "times √d", "llama", "input",
          {"embed": lambda s, i: Llama.embed(s, i) * 32**0.5}, ("√",)),
    Fault("embedding-scale", "times √d", "gpt", "input",
          {"embed": lambda s, i: F.embedding(i, s.own.transformer.wte.weight) * 32**0.5
           + s.places(i.shape[1])}, ("√",)),
    Fault("embedding-scale", "none", "encoder", "input",
          {"embed": lambda s, i: s.placed(s.embedding(i))}, ("4.89898 = √24",)),
]  # fmt: skip

BETWEEN_FAULTS = NORMS + RESIDUALS + POSITIONS
