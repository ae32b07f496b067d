"""What makes no attention is refused where it is made, in three parts, and not in the forward."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnscope.errors import InputError
from attnscope.nn import (
    AcrossHeads,
    ALiBi,
    AttentionDropouts,
    Causal,
    DecoderLayer,
    Dropouts,
    EncoderLayer,
    FeedForward,
    FeedForwardNetwork,
    Fused,
    HeadwiseOutput,
    KeyValueCache,
    LearnedPositions,
    MultiheadAttention,
    PerHead,
    Positions,
    Prefix,
    Rotary,
    ShawKeys,
    Sinks,
    SinusoidalPositions,
    Softcap,
    T5Bias,
    TokenEmbedding,
    Window,
)

PARTS: list[tuple[dict[str, Any], str]] = [
    ({"positions": "rotary"}, "the str 'rotary'"),
    ({"positions": Rotary}, "Rotary, a class"),
    ({"mask": "causal"}, "the str 'causal'"),
    ({"mask": Causal}, "Causal, a class"),
    ({"mask": torch.ones(5, 5, dtype=torch.bool)}, "a tensor (5, 5) of torch.bool"),
    ({"scores": 50.0}, "the float 50.0"),
    ({"scores": Softcap}, "Softcap, a class"),
    ({"sinks": 1}, "the int 1"),
    ({"sinks": Sinks}, "Sinks, a class"),
    ({"scale": "a"}, "the str 'a'"),
    ({"scale": math.nan}, "nan"),
    ({"scale": True}, "the bool True"),
    ({"projections": "fused"}, "the str 'fused'"),
    ({"projections": Fused}, "Fused, a class"),
    ({"qk_norm": True}, "the bool True"),
    ({"qk_norm": nn.RMSNorm(4)}, "the RMSNorm"),
    ({"qk_norm": PerHead(3)}, "the int 3"),  # type: ignore[arg-type]
    ({"qk_norm": lambda width: width}, "the function"),
    ({"context_norm": "layer"}, "the str 'layer'"),
    ({"context_norm": AcrossHeads(3)}, "the int 3"),  # type: ignore[arg-type]
    ({"output": HeadwiseOutput}, "HeadwiseOutput, a class"),
    ({"dropouts": 0.1}, "the float 0.1"),
    ({"dropout": 1.5}, "the float 1.5"),
    ({"dropout": "a"}, "the str 'a'"),
    ({"kv_heads": 1.0}, "kv_heads 1.0"),
    ({"head_dim": 4.0}, "head_dim=4.0"),
    ({"kdim": 0}, "kdim=0"),
    ({"positions": T5Bias(3)}, "a table of 3 heads and q of 2"),
    ({"positions": ShawKeys(3)}, "vectors of width 3 and q of 4"),
    ({"sinks": Sinks(4)}, "sinks of 4 heads"),
    ({"positions": Rotary(), "head_dim": 3}, "3 features"),
]


@pytest.mark.parametrize(
    ("parts", "found"), PARTS, ids=[f"{i} {next(iter(p))}" for i, (p, _) in enumerate(PARTS)]
)
def test_a_part_of_another_kind_or_size(*, parts: dict[str, Any], found: str) -> None:
    with pytest.raises(InputError) as error:
        MultiheadAttention(8, 2, **parts)
    assert found in error.value.found
    assert error.value.todo


@pytest.mark.parametrize("sizes", [(8.0, 2), (8, 2.0), (8, True), ("8", 2), (-8, 2)])
def test_sizes_are_whole_numbers(sizes: Any) -> None:
    with pytest.raises(InputError, match="give positive whole numbers"):
        MultiheadAttention(*sizes)


OBJECTS: dict[str, Callable[[], Any]] = {
    "window": lambda: Window(2.5),  # type: ignore[arg-type]
    "window of true": lambda: Window(size=True),
    "no window": lambda: Window(0),
    "prefix": lambda: Prefix(-1),
    "prefixes": lambda: Prefix(torch.tensor([1, -1])),
    "text prefix": lambda: Prefix("2"),  # type: ignore[arg-type]
    "and": lambda: Causal() & True,  # type: ignore[operator]
    "or": lambda: Causal() | torch.ones(2, 2).bool(),  # type: ignore[operator]
    "left and": lambda: True & Causal(),
    "left or": lambda: torch.ones(2, 2).bool() | Causal(),
    "class": lambda: Causal() & Causal,  # type: ignore[operator]
    "layer dropout": lambda: EncoderLayer(8, 2, dropout=0.1),  # type: ignore[arg-type]
    "decoder dropout": lambda: DecoderLayer(8, 2, dropout=0.1),  # type: ignore[arg-type]
    "layer norm": lambda: EncoderLayer(8, 2, norm=nn.LayerNorm(8)),
    "layer parts": lambda: EncoderLayer(8, 2, feed_forward=4),  # type: ignore[arg-type]
    "network": lambda: FeedForwardNetwork(8, "swiglu"),  # type: ignore[arg-type]
    "ratio": lambda: FeedForward(ratio="4"),  # type: ignore[arg-type]
    "no ratio": lambda: FeedForward(ratio=math.nan),
    "hidden": lambda: FeedForward(hidden=2.5),  # type: ignore[arg-type]
    "rates": lambda: Dropouts("0.1"),  # type: ignore[arg-type]
    "no rate": lambda: AttentionDropouts(math.nan),
    "cap": lambda: Softcap("50"),  # type: ignore[arg-type]
    "no cap": lambda: Softcap(math.inf),
    "no sinks": lambda: Sinks(2, 0),
    "base": lambda: Rotary(base=math.inf),
    "share": lambda: Rotary(share="all"),  # type: ignore[arg-type]
    "t5": lambda: T5Bias(0),
    "shaw": lambda: ShawKeys(4, 2.5),  # type: ignore[arg-type]
    "cache": lambda: KeyValueCache(2.5),  # type: ignore[arg-type]
    "learned": lambda: LearnedPositions(0, 8),
    "tokens": lambda: TokenEmbedding(10, 0),
    "sinusoidal": lambda: SinusoidalPositions(8, base=-1.0),
}


@pytest.mark.parametrize("make", OBJECTS.values(), ids=OBJECTS)
def test_objects_that_mean_nothing(make: Callable[[], Any]) -> None:
    with pytest.raises(InputError) as error:
        make()
    assert all((error.value.doing, error.value.found, error.value.todo))


class Own:
    """Positions of the user's own, that inherit nothing."""

    def turn(self, q: Tensor, k: Tensor, *_: Tensor) -> tuple[Tensor, Tensor]:
        return q, k

    def bias(self, *_: Tensor) -> None:
        return None


def test_what_fits_is_taken() -> None:
    parts: list[dict[str, Any]] = [
        {"positions": Own()},
        {"positions": Positions()},
        {"positions": ALiBi()},
        {"scores": torch.tanh},
        {"qk_norm": lambda width: nn.LayerNorm(width)},  # noqa: PLW0108
        {"scale": 1},
        {"scale": 0.0},
        {"dropout": 1},
    ]
    x = torch.randn(2, 5, 8)
    for part in parts:
        output, _ = MultiheadAttention(8, 2, batch_first=True, **part)(x, x, x)
        assert output.shape == x.shape
