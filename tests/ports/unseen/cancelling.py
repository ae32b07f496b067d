"""Sound ports whose insides differ from the original's: what is changed here is undone there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.ports.case import Pair, Port
from tests.ports.encoder_residual import Encoder, PreNorm, Stack, fill
from tests.ports.originals import (
    HEADS,
    WIDTH,
    encoder_layer,
    gpt2,
    hidden,
    llama,
    padded,
    token_ids,
)

SIZE = WIDTH // HEADS
Change = Callable[[Encoder], None]


def rows(layer: Encoder, part: int) -> tuple[Tensor, Tensor]:
    """Return weight and bias of q (0), k (1) or v (2), as views."""
    return layer.wqkv.weight.chunk(3)[part], layer.wqkv.bias.chunk(3)[part]


def fold_norm(layer: Encoder) -> None:
    """Take gain and offset of the norm into the projection behind it."""
    gain, offset = layer.ln1.weight, layer.ln1.bias
    layer.wqkv.bias.add_(layer.wqkv.weight @ offset)
    layer.wqkv.weight.mul_(gain)
    gain.fill_(1)
    offset.zero_()


def turn_values(layer: Encoder) -> None:
    """Rotate the features of each head's values, and rotate them back on the way out."""
    weight, bias = rows(layer, 2)
    for h in range(HEADS):
        part = slice(h * SIZE, (h + 1) * SIZE)
        noise = torch.randn(SIZE, SIZE, generator=torch.Generator().manual_seed(h))
        turn, _ = torch.linalg.qr(noise)
        weight[part] = turn @ weight[part]
        bias[part] = turn @ bias[part]
        layer.wo.weight[:, part] = layer.wo.weight[:, part] @ turn.T


def reorder_heads(layer: Encoder) -> None:
    """Put the heads in another order, in every projection alike."""
    order = torch.tensor([2, 0, 3, 1])
    for part in range(3):
        for tensor in rows(layer, part):
            tensor.copy_(tensor.unflatten(0, (HEADS, SIZE))[order].flatten(0, 1))
    layer.wo.weight.copy_(layer.wo.weight.unflatten(1, (HEADS, SIZE))[:, order].flatten(1))


def trade_factors(layer: Encoder) -> None:
    """Make queries twice as long and keys half as long."""
    for part, factor in ((0, 2.0), (1, 0.5)):
        for tensor in rows(layer, part):
            tensor.mul_(factor)


def drop_key_bias(layer: Encoder) -> None:
    """Forget the bias of the keys, which moves all scores of a row alike."""
    rows(layer, 1)[1].zero_()


def changed(change: Change, layers: int = 2) -> Callable[[], Pair]:
    """Return pre-norm layers that were changed against torch's own."""

    def make() -> Pair:
        originals = [encoder_layer(seed, norm_first=True) for seed in range(layers)]
        ported = [fill(PreNorm(), original) for original in originals]
        with torch.no_grad():
            for layer in ported:
                change(layer)
        return Pair(
            Stack(list[nn.Module](ported)).eval(),
            Stack(list[nn.Module](originals)).eval(),
            (hidden(),),
        )

    return make


def two_kernels() -> Pair:
    return Pair(gpt2(attention="eager"), gpt2(attention="sdpa"), {"input_ids": token_ids()})


def two_kernels_padded() -> Pair:
    one, two = llama(6), llama(6)
    two.config._attn_implementation = "sdpa"
    return Pair(one, two, padded())


def half_precision() -> Pair:
    one, two = llama(6).bfloat16(), llama(6).bfloat16()
    two.config._attn_implementation = "sdpa"
    return Pair(one, two, padded())


def sound(name: str, make: Callable[[], Pair], reference: str, style: str, **more: Any) -> Port:
    return Port(name=f"cancelling-{name}", reference=reference, style=style, make=make, **more)


def layers(change: Change) -> Port:
    name = change.__name__.replace("_", "-")
    reference = "nn.TransformerEncoderLayer"
    return sound(name, changed(change), reference, "weights changed", weights="keep")


PORTS: tuple[Port, ...] = ()

SOUND = (
    layers(fold_norm),
    layers(turn_values),
    layers(reorder_heads),
    layers(trade_factors),
    layers(drop_key_bias),
    sound("two-kernels", two_kernels, "GPT-2", "the library's own"),
    sound("two-kernels-padded", two_kernels_padded, "Llama", "the library's own"),
    sound("two-kernels-in-bfloat16", half_precision, "Llama", "the library's own"),
)
