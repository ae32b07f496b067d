"""What a forward can't use is refused in three parts, and leaves a cache as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from attnscope.errors import InputError
from attnscope.nn import (
    Causal,
    DecoderLayer,
    Documents,
    EncoderLayer,
    HeadwiseOutput,
    MultiheadAttention,
    Padding,
    Prefix,
    ShawKeys,
    T5Bias,
)

B, T, E, H = 2, 5, 8, 2

ARGUMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "padding of others": ({"mask": Padding(torch.ones(3, T, dtype=torch.bool))}, "(3, 1, 5, 5)"),
    "lengths of others": ({"mask": Padding(torch.tensor([1, 2, 3]))}, "(3, 1, 5, 5)"),
    "joined": ({"mask": Causal() & Padding(torch.tensor([1, 2, 3]))}, "(3, 1, 5, 5)"),
    "prefix of others": ({"mask": Prefix(torch.tensor([1, 2, 3]))}, "(3, 1, 5, 5)"),
    "documents of others": ({"mask": Documents(torch.zeros(3, T).long())}, "(3, 1, 5, 5)"),
    "short padding": ({"mask": Padding(torch.ones(B, 2, dtype=torch.bool))}, "2 tokens"),
    "mask as tensor": ({"mask": torch.ones(T, T, dtype=torch.bool)}, "a tensor (5, 5)"),
    "positions of others": ({"positions": torch.zeros(3, T).long()}, "(3, 5) for 5 queries in 2"),
    "positions as list": ({"positions": list(range(T))}, "the list [0, 1, 2, 3, 4]"),
    "true positions": ({"positions": torch.ones(T).bool()}, "of torch.bool"),
    "three positions": ({"positions": (torch.arange(T),) * 3}, "a tuple of 3"),
    "cache as tuple": ({"cache": (torch.zeros(1), torch.zeros(1))}, "a tuple of 2"),
    "padding as list": ({"key_padding_mask": [[False] * T] * B}, "the list"),
    "mask as list": ({"attn_mask": [[0.0] * T] * T}, "the list"),
    "mask of others": ({"attn_mask": torch.zeros(T, T + 1)}, "(5, 6)"),
    "numbers as padding": ({"key_padding_mask": torch.zeros(B, T).long()}, "torch.int64"),
}


@pytest.mark.parametrize(("arguments", "found"), ARGUMENTS.values(), ids=ARGUMENTS)
@pytest.mark.parametrize("train", [True, False])
def test_arguments_that_do_not_fit(*, arguments: dict[str, Any], found: str, train: bool) -> None:
    made, x = MultiheadAttention(E, H, batch_first=True).train(train), torch.randn(B, T, E)
    with torch.no_grad(), pytest.raises(InputError) as error:
        made(x, x, x, **arguments)
    assert found in error.value.found
    assert error.value.todo


INPUTS: dict[str, Callable[[Tensor], Any]] = {
    "whole": Tensor.long,
    "double": Tensor.double,
    "half": Tensor.half,
    "boolean": Tensor.bool,
    "list": Tensor.tolist,
}


@pytest.mark.parametrize("change", INPUTS.values(), ids=INPUTS)
@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("train", [True, False])
def test_inputs_of_another_type(
    *, change: Callable[[Tensor], Any], place: int, train: bool
) -> None:
    made, x = MultiheadAttention(E, H, batch_first=True).train(train), torch.randn(B, T, E)
    inputs: list[Any] = [x, x, x]
    inputs[place] = change(x)
    with torch.no_grad(), pytest.raises(InputError, match=("query", "key", "value")[place]):
        made(*inputs)


def test_autocast_chooses_the_type() -> None:
    made, x = MultiheadAttention(E, H, batch_first=True), torch.randn(B, T, E)
    with torch.autocast("cpu", torch.bfloat16):
        assert made(x.half(), x.half(), x.half())[0].dtype == torch.bfloat16
        with pytest.raises(InputError, match=r"torch\.float64"):
            made(x.double(), x.double(), x.double())


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
def test_an_output_of_heads_has_the_type_of_the_plain_one(
    *, bias: bool, need_weights: bool
) -> None:
    x, types = torch.randn(B, T, E), []
    for output in (None, HeadwiseOutput()):
        made = MultiheadAttention(E, H, bias=bias, batch_first=True, output=output)
        with torch.autocast("cpu", torch.bfloat16):
            types.append(made(x, x, x, need_weights=need_weights)[0].dtype)
    assert types == [torch.bfloat16] * 2


@pytest.mark.parametrize("positions", [T5Bias(H), ShawKeys(E // H)])
def test_distances_that_are_looked_up_are_whole(positions: Any) -> None:
    made, x = MultiheadAttention(E, H, batch_first=True, positions=positions), torch.randn(B, T, E)
    with pytest.raises(InputError, match="give whole numbers"):
        made(x, x, x, positions=torch.rand(T))


# -- caches ---------------------------------------------------------------------------------------


REFUSED: dict[str, dict[str, Any]] = {
    "mask": {"attn_mask": torch.zeros(2, 2)},
    "padding": {"key_padding_mask": torch.zeros(B, 1, dtype=torch.bool)},
    "short": {"mask": Padding(torch.ones(B, 2, dtype=torch.bool))},
    "others": {"mask": Padding(torch.ones(3, 4, dtype=torch.bool))},
    "positions": {"positions": torch.arange(4)},
    "hint": {"is_causal": True},
}


@pytest.mark.parametrize("arguments", REFUSED.values(), ids=REFUSED)
def test_a_refused_forward_leaves_the_cache_as_it_was(arguments: dict[str, Any]) -> None:
    made, x = MultiheadAttention(E, H, batch_first=True, mask=Causal()), torch.randn(B, T, E)
    cache = made.new_cache()
    made(x[:, :3], x[:, :3], x[:, :3], cache=cache)
    new = x[:, 3:4]
    with pytest.raises(InputError):
        made(new, new, new, cache=cache, **arguments)
    assert (cache.length, cache.kept) == (3, 3)
    again = made(new, new, new, cache=cache)[0]
    assert torch.allclose(again, made(*[x[:, :4]] * 3)[0][:, 3:], atol=1e-6)


def test_a_failing_part_leaves_the_cache_as_it_was() -> None:
    made = MultiheadAttention(E, H, batch_first=True, mask=Causal(), output=HeadwiseOutput())
    cache, x = made.new_cache(), torch.randn(B, T, E)
    made.out_proj.register_forward_pre_hook(lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        made(x, x, x, cache=cache)
    assert cache.length == 0


def test_a_failing_layer_leaves_the_cache_as_it_was() -> None:
    x = torch.randn(B, T, E)
    decoder = DecoderLayer(E, H, mask=Causal())
    cache = decoder.self_attn.new_cache()
    with pytest.raises(InputError):
        decoder(x, x, memory_mask=torch.zeros(2, 2), cache=cache)
    assert cache.length == 0
    decoder(x, x, cache=cache)
    assert cache.length == T
    encoder = EncoderLayer(E, H, mask=Causal())
    encoder.linear1.register_forward_pre_hook(lambda *_: 1 // 0)
    cache = encoder.self_attn.new_cache()
    with pytest.raises(ZeroDivisionError):
        encoder(x, cache=cache)
    assert cache.length == 0


def test_one_cache_serves_one_module() -> None:
    layers = [EncoderLayer(E, H, mask=Causal()) for _ in range(2)]
    cache, x = layers[0].self_attn.new_cache(), torch.randn(B, T, E)
    y = layers[0](x, cache=cache)
    with pytest.raises(InputError, match="5 tokens in it of another module"):
        layers[1](y, cache=cache)
    assert cache.length == T
    cache.reset()
    layers[1](y, cache=cache)
    assert cache.length == T
