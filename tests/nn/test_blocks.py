"""Encoder and decoder layers: torch's own results, and others where a part is handed in."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import attnscope
from attnscope.errors import InputError
from attnscope.nn import (
    Causal,
    DecoderLayer,
    Dropouts,
    EncoderLayer,
    FeedForward,
    KeyValueCache,
    Rotary,
    geglu,
    swiglu,
)

WIDTH, HEADS, HIDDEN = 24, 4, 40
BIAS = pytest.mark.parametrize("bias", [True, False], ids=["bias", "no-bias"])
FIRST = pytest.mark.parametrize("norm_first", [True, False], ids=["pre", "post"])
ORDER = pytest.mark.parametrize("batch_first", [True, False], ids=["batch", "sequence"])
ACTIVATION = pytest.mark.parametrize("activation", ["relu", "gelu", nn.SiLU(), nn.GELU("tanh")])


def torch_encoder(**options: Any) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, **options)


def torch_decoder(**options: Any) -> nn.TransformerDecoderLayer:
    return nn.TransformerDecoderLayer(WIDTH, HEADS, HIDDEN, **options)


def inputs(*, batch_first: bool = True, length: int = 7) -> Tensor:
    x = torch.randn(3, length, WIDTH)
    return x if batch_first else x.transpose(0, 1)


def causal(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool).triu(1)


def padding(length: int) -> Tensor:
    return torch.arange(length) >= torch.tensor([[length], [length - 2], [1]])


def same(own: Tensor, other: Tensor) -> bool:
    bound = 8 * torch.finfo(other.dtype).eps * float(other.detach().abs().max())
    return bool(torch.allclose(own, other, rtol=0.0, atol=bound, equal_nan=True))


@ACTIVATION
@FIRST
@ORDER
@BIAS
def test_the_encoder_layer_is_torchs(
    *, activation: Any, norm_first: bool, batch_first: bool, bias: bool
) -> None:
    options = {"norm_first": norm_first, "batch_first": batch_first, "bias": bias}
    theirs = torch_encoder(activation=activation, dropout=0.0, **options)
    own = EncoderLayer.like(theirs)
    x = inputs(batch_first=batch_first)
    for masks in (
        {},
        {"src_mask": causal(7)},
        {"src_key_padding_mask": padding(7)},
        {"src_mask": causal(7).float() * -3.0, "src_key_padding_mask": padding(7).float() * -2.0},
        {"src_mask": causal(7), "src_key_padding_mask": padding(7), "is_causal": True},
    ):
        assert same(own(x, **masks), theirs(x, **masks))


@ACTIVATION
@FIRST
@ORDER
@BIAS
def test_the_decoder_layer_is_torchs(
    *, activation: Any, norm_first: bool, batch_first: bool, bias: bool
) -> None:
    options = {"norm_first": norm_first, "batch_first": batch_first, "bias": bias}
    theirs = torch_decoder(activation=activation, dropout=0.0, **options)
    own = DecoderLayer.like(theirs)
    x, memory = inputs(batch_first=batch_first), inputs(batch_first=batch_first, length=5)
    for masks in (
        {},
        {"tgt_mask": causal(7), "tgt_is_causal": True},
        {"tgt_key_padding_mask": padding(7), "memory_key_padding_mask": padding(5)},
        {"memory_mask": torch.rand(7, 5)},
    ):
        assert same(own(x, memory, **masks), theirs(x, memory, **masks))


@FIRST
def test_gradients_and_dropout_are_torchs(*, norm_first: bool) -> None:
    theirs = torch_decoder(dropout=0.3, norm_first=norm_first, batch_first=True)
    own = DecoderLayer.like(theirs)
    x, memory = inputs(), inputs(length=5)
    torch.manual_seed(1)
    expected = theirs(x, memory)
    expected.square().sum().backward()
    torch.manual_seed(1)
    found = own(x, memory)
    found.square().sum().backward()

    assert same(found, expected)
    gradients = dict(theirs.named_parameters())
    for name, parameter in own.named_parameters():
        other = gradients[name].grad
        assert parameter.grad is not None
        assert other is not None
        bound = 64 * torch.finfo(torch.float32).eps * float(other.detach().abs().max())
        assert torch.allclose(parameter.grad, other, rtol=0.0, atol=bound), name


@pytest.mark.parametrize("place", ["weights", "residual", "feed_forward"])
def test_each_place_of_dropout_matters_and_is_off_in_eval(place: str) -> None:
    torch.manual_seed(2)
    layer = EncoderLayer(WIDTH, HEADS, dropout=Dropouts(**{place: 0.5}))
    plain = EncoderLayer(WIDTH, HEADS)
    plain.load_state_dict(layer.state_dict())
    x = inputs()

    assert not torch.equal(layer(x), plain(x))
    assert torch.equal(layer.eval()(x), plain.eval()(x))


def test_state_dicts_go_both_ways() -> None:
    encoder, decoder = torch_encoder(), torch_decoder()
    feed_forward = FeedForward(hidden=HIDDEN, activation="relu")
    own = EncoderLayer(WIDTH, HEADS, feed_forward=feed_forward)
    two = DecoderLayer(WIDTH, HEADS, feed_forward=feed_forward)

    own.load_state_dict(encoder.state_dict())
    encoder.load_state_dict(own.state_dict())
    two.load_state_dict(decoder.state_dict())
    decoder.load_state_dict(two.state_dict())
    assert list(own.state_dict()) == list(encoder.state_dict())
    assert list(two.state_dict()) == list(decoder.state_dict())


def test_first_values_are_torchs_under_the_same_seed() -> None:
    torch.manual_seed(3)
    theirs = torch_encoder().state_dict()
    torch.manual_seed(3)
    feed_forward = FeedForward(hidden=HIDDEN, activation="relu")
    own = EncoderLayer(WIDTH, HEADS, feed_forward=feed_forward).state_dict()

    assert all(torch.equal(own[name], value) for name, value in theirs.items())


def test_pre_post_and_sandwich_follow_their_formulas() -> None:
    x = inputs()
    for placement in ("pre", "post", "sandwich"):
        layer: Any = EncoderLayer(WIDTH, HEADS, placement=placement)
        for norm in (one for one in layer.modules() if isinstance(one, nn.LayerNorm)):
            nn.init.normal_(norm.weight)

        def attend(x: Tensor, layer: Any = layer) -> Any:
            return layer.self_attn(x, x, x, need_weights=False)[0]

        def feed(x: Tensor, layer: Any = layer) -> Any:
            return layer.linear2(nn.functional.gelu(layer.linear1(x)))

        if placement == "pre":
            y = x + attend(layer.norm1(x))
            expected = y + feed(layer.norm2(y))
        elif placement == "post":
            y = layer.norm1(x + attend(x))
            expected = layer.norm2(y + feed(y))
        else:
            y = x + layer.norm1_after(attend(layer.norm1(x)))
            expected = y + layer.norm2_after(feed(layer.norm2(y)))
        assert same(layer(x), expected), placement


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("kv_heads", 2),
        ("positions", Rotary()),
        ("mask", Causal()),
        ("qk_norm", nn.RMSNorm),
        ("scale", 1.0),
        ("norm", nn.RMSNorm),
        ("placement", "post"),
        ("feed_forward", swiglu()),
        ("feed_forward", geglu()),
        ("bias", False),
    ],
)
def test_each_part_changes_the_output(part: str, value: Any) -> None:
    torch.manual_seed(4)
    plain = EncoderLayer(WIDTH, HEADS)
    torch.manual_seed(4)
    layer = EncoderLayer(WIDTH, HEADS, **{part: value})
    for one in (plain, layer):
        for name, parameter in one.named_parameters():
            if name.endswith("bias"):
                nn.init.ones_(parameter)
    x = inputs()

    assert layer(x).shape == x.shape
    assert not torch.allclose(layer(x), plain(x), atol=1e-4)


def test_cross_attention_takes_a_memory_of_another_width() -> None:
    layer = DecoderLayer(WIDTH, HEADS, cross={"kdim": 10, "vdim": 10})
    memory = torch.randn(3, 5, 10)
    assert layer(inputs(), memory).shape == (3, 7, WIDTH)
    with pytest.raises(InputError, match="10"):
        layer(inputs(), inputs(length=5))


def test_decoding_by_steps_is_the_full_pass() -> None:
    encoder = EncoderLayer(WIDTH, HEADS, positions=Rotary(), mask=Causal()).eval()
    decoder = DecoderLayer(WIDTH, HEADS, positions=Rotary(), mask=Causal()).eval()
    x, memory = inputs(), inputs(length=5)
    for layer, rest in ((encoder, ()), (decoder, (memory,))):
        cache = KeyValueCache()
        steps = [layer(x[:, i : i + 1], *rest, cache=cache) for i in range(x.shape[1])]
        assert torch.allclose(torch.cat(steps, 1), layer(x, *rest), atol=1e-5)


def test_a_layer_works_inside_torchs_stack() -> None:
    theirs = torch_encoder(batch_first=True, norm_first=True, dropout=0.0)
    own: Any = EncoderLayer.like(theirs)
    stack = nn.TransformerEncoder(own, 2, enable_nested_tensor=False)
    expected = nn.TransformerEncoder(theirs, 2, enable_nested_tensor=False)
    x = inputs()
    assert same(
        stack(x, mask=causal(7), src_key_padding_mask=padding(7)),
        expected(x, mask=causal(7), src_key_padding_mask=padding(7)),
    )


def test_layers_are_copied_and_pickled() -> None:
    layer = DecoderLayer(WIDTH, HEADS, feed_forward=swiglu(), placement="sandwich")
    x, memory = inputs(), inputs(length=5)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(twin(x, memory), layer(x, memory))
        nn.init.zeros_(twin.linear2.weight)  # the twin's own, not the layer's
        assert not torch.equal(twin(x, memory), layer(x, memory))


def test_a_replaced_matrix_is_used() -> None:
    layer = EncoderLayer(WIDTH, HEADS)
    x = inputs()
    before = layer(x)
    layer.linear1 = nn.Linear(WIDTH, 4 * WIDTH)
    assert not torch.equal(layer(x), before)


def test_a_dtype_holds_for_every_part() -> None:
    layer = EncoderLayer(WIDTH, HEADS, feed_forward=swiglu(), dtype=torch.float64)
    assert {parameter.dtype for parameter in layer.parameters()} == {torch.float64}
    assert layer(inputs().double()).dtype == torch.float64


def test_capture_sees_both_attentions_of_a_decoder_layer() -> None:
    layer = DecoderLayer(WIDTH, HEADS, mask=Causal()).eval()
    trace = attnscope.trace(layer, inputs(), inputs(length=5))
    assert [call.module for call in trace] == ["self_attn", "multihead_attn"]
    assert [call.recipe.mask.kind for call in trace] == ["causal", "none"]
    assert all(call.replay_error is not None and call.replay_error < 1e-4 for call in trace)


def test_an_unknown_activation_is_refused() -> None:
    theirs = torch_encoder(activation=nn.Tanh())
    with pytest.raises(InputError, match="the activation Tanh\\(\\)") as error:
        EncoderLayer.like(theirs)
    assert "relu, gelu" in error.value.todo
