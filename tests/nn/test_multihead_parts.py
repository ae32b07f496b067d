"""Each part of MultiheadAttention does what the reference says, alone and together, and matters."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from attnscope import reference
from attnscope.errors import InputError
from attnscope.nn import (
    AcrossHeads,
    ALiBi,
    AttentionDropouts,
    Causal,
    Fused,
    HeadwiseOutput,
    KeyValueCache,
    MultiheadAttention,
    PerHead,
    Prefix,
    Rotary,
    Separate,
    SharedKeyValue,
    SharedQueryKey,
    ShawKeys,
    Sinks,
    Softcap,
    T5Bias,
    Window,
    ZeroSink,
)
from tests.nn.formula import expected

B, T, S, E, H, D = 2, 6, 9, 24, 4, 6
close = partial(torch.allclose, rtol=1e-11, atol=1e-12)
agrees = partial(np.testing.assert_allclose, rtol=1e-11, atol=1e-12)

PARTS: dict[str, dict[str, Any]] = {
    "kv heads": {"kv_heads": 2},
    "one kv head": {"kv_heads": 1},
    "head_dim": {"head_dim": 10},
    "scale": {"scale": 0.7},
    "separate": {"projections": Separate()},
    "fused": {"projections": Fused(), "kv_heads": 2},
    "shared k and v": {"projections": SharedKeyValue(), "kv_heads": 2},
    "shared q and k": {"projections": SharedQueryKey()},
    "norm of q and k": {"qk_norm": nn.RMSNorm},
    "norm across heads": {"qk_norm": AcrossHeads(nn.LayerNorm), "kv_heads": 2},
    "rotary": {"positions": Rotary()},
    "rotary interleaved": {"positions": Rotary(base=50.0, pairing="interleaved")},
    "rotary partly": {"positions": Rotary(share=0.7)},
    "alibi": {"positions": ALiBi()},
    "t5": {"positions": T5Bias(H, buckets=8, reach=6)},
    "t5 one way": {"positions": T5Bias(H, buckets=4, reach=5, both_ways=False)},
    "shaw": {"positions": ShawKeys(D, reach=2)},
    "soft cap": {"scores": Softcap(0.5)},
    "causal": {"mask": Causal()},
    "causal bottom right": {"mask": Causal("bottom-right")},
    "window": {"mask": Causal() & Window(3)},
    "prefix": {"mask": Causal() | Prefix(3)},
    "sinks": {"sinks": Sinks(H, count=2, start=0.3)},
    "zero sink": {"sinks": ZeroSink()},
    "context norm": {"context_norm": PerHead(nn.RMSNorm)},
    "context norm across": {"context_norm": AcrossHeads(nn.LayerNorm)},
    "headwise output": {"output": HeadwiseOutput()},
}

VISIBLE = {
    "causal": reference.causal(T, S, "top-left"),
    "causal bottom right": reference.causal(T, S, "bottom-right"),
    "window": reference.window(3, T, S, sides="past", alignment="top-left"),
    "prefix": reference.prefix(3, T, S, "top-left"),
}


def module(**parts: Any) -> MultiheadAttention:
    """A module in float64 whose parameters are all random: no zeros that hide a mistake."""
    made = MultiheadAttention(E, H, batch_first=True, **parts).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter) / 4)
    return made


def tokens() -> tuple[Tensor, Tensor, Tensor]:
    query, key, value = (torch.randn(B, n, E, dtype=torch.float64) for n in (T, S, S))
    return query, key, value


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("need_weights", [True, False])
def test_each_part_is_the_reference(*, name: str, need_weights: bool) -> None:
    parts, given_ = PARTS[name], tokens()
    made = module(**parts)
    norms = {n: parts.get(n) for n in ("qk_norm", "context_norm")}
    output, weights = expected(made, given_, visible=VISIBLE.get(name), **norms)
    actual, seen = made(*given_, need_weights=need_weights, average_attn_weights=False)
    agrees(actual.detach().numpy(), output)
    assert (seen is None) != need_weights
    if seen is not None:
        agrees(seen.detach().numpy(), weights)


@pytest.mark.parametrize("name", PARTS)
def test_each_part_matters(name: str) -> None:
    made = module(**PARTS[name])
    plain = module()
    own = dict(made.named_parameters())
    with torch.no_grad():
        for key, parameter in plain.named_parameters():
            if key in own and own[key].shape == parameter.shape:
                own[key].copy_(parameter)
    given_ = tokens()
    assert not torch.allclose(made(*given_)[0], plain(*given_)[0], rtol=1e-3)


AXES: dict[str, list[Any]] = {
    "kv_heads": [None, 1, 2],
    "head_dim": [None, 10],
    "scale": [None, 0.3],
    "projections": [None, Separate(), Fused(), SharedKeyValue()],
    "qk_norm": [None, nn.RMSNorm, AcrossHeads(nn.LayerNorm)],
    "positions": [None, Rotary(pairing="interleaved"), ALiBi(), partial(T5Bias, H)],
    "scores": [None, Softcap(2.0)],
    "mask": [None, "causal", "window", "prefix"],
    "sinks": [None, partial(Sinks, H), ZeroSink()],
    "context_norm": [None, nn.RMSNorm, AcrossHeads(nn.LayerNorm)],
    "output": [None, HeadwiseOutput()],
}


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.fixed_dictionaries({name: st.sampled_from(values) for name, values in AXES.items()}))
def test_parts_together_are_the_reference(chosen: dict[str, Any]) -> None:
    mask = chosen["mask"]
    parts = {
        name: part() if isinstance(part, partial) else part for name, part in chosen.items()
    } | ({"mask": PARTS[mask]["mask"]} if mask else {})
    made, given_ = module(**parts), tokens()
    norms = {n: parts[n] for n in ("qk_norm", "context_norm")}
    output, weights = expected(made, given_, visible=VISIBLE.get(mask), **norms)
    actual, seen = made(*given_, average_attn_weights=False)
    agrees(actual.detach().numpy(), output)
    agrees(seen.detach().numpy(), weights)
    without = made(*given_, need_weights=False)[0]
    agrees(without.detach().numpy(), output)


@pytest.mark.parametrize("name", PARTS)
def test_parts_meet_the_masks_of_torch(name: str) -> None:
    """A mask in torch's convention hides the same keys as the same mask in attnscope's."""
    made, (query, key, value) = module(**PARTS[name]), tokens()
    hidden = torch.rand(T, S) > 0.5
    hidden[:, 0] = False
    padding = torch.arange(S) >= torch.tensor([[S], [4]])
    seen = (~hidden & ~padding[:, None, :])[:, None].numpy()
    if name in VISIBLE:
        seen = seen & VISIBLE[name]
    norms = {n: PARTS[name].get(n) for n in ("qk_norm", "context_norm")}
    output, _ = expected(made, (query, key, value), visible=seen, **norms)
    for need_weights in (True, False):
        actual, _ = made(query, key, value, padding, need_weights, hidden)
        agrees(actual.detach().numpy(), output)


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("need_weights", [True, False])
def test_gradients_reach_every_parameter(*, name: str, need_weights: bool) -> None:
    made, given_ = module(**PARTS[name]), tokens()
    made(*given_, need_weights=need_weights)[0].square().sum().backward()
    idle = [n for n, p in made.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert not idle


def test_gradients_are_those_of_finite_differences() -> None:
    made = module(
        kv_heads=2,
        qk_norm=nn.RMSNorm,
        positions=T5Bias(H, buckets=8, reach=6),
        scores=Softcap(3.0),
        mask=Causal(),
        sinks=Sinks(H),
        context_norm=AcrossHeads(nn.LayerNorm),
        output=HeadwiseOutput(),
    )
    x = torch.randn(1, 3, E, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda y: made(y, y, y)[0], (x,))


@pytest.mark.parametrize("name", PARTS)
def test_state_dict_and_half_precision(name: str) -> None:
    made, other = module(**PARTS[name]), module(**PARTS[name])
    other.load_state_dict(made.state_dict(), strict=True)
    given_ = tokens()
    assert torch.equal(made(*given_)[0], other(*given_)[0])
    half = other.bfloat16()(*(x.bfloat16() for x in given_), need_weights=False)[0]
    assert half.dtype == torch.bfloat16
    assert torch.allclose(half.double(), made(*given_)[0], atol=0.25)


@pytest.mark.parametrize("name", PARTS)
def test_layouts_of_inputs(name: str) -> None:
    made = module(**PARTS[name])
    query, key, value = tokens()
    output, weights = made(query, key, value)
    made.batch_first = False
    turned = made(*(x.transpose(0, 1) for x in (query, key, value)))
    assert close(turned[0].transpose(0, 1), output)
    one = made(query[0], key[0], value[0])
    assert close(one[0], output[0])
    assert close(one[1], weights[0])


def test_other_widths_of_keys_and_values() -> None:
    """Text of width 24 asks an image of width 36."""
    for projections in (None, Separate()):
        made = module(kdim=36, vdim=30, kv_heads=2, projections=projections)
        query = torch.randn(B, T, E, dtype=torch.float64)
        key, value = (torch.randn(B, S, n, dtype=torch.float64) for n in (36, 30))
        output, _ = expected(made, (query, key, value))
        agrees(made(query, key, value)[0].detach().numpy(), output)


def test_extra_keys_stand_outside_masks_and_positions() -> None:
    made = module(
        add_bias_kv=True,
        add_zero_attn=True,
        kv_heads=2,
        positions=T5Bias(H),
        mask=Causal(),
    )
    given_ = tokens()
    weights = made(*given_, average_attn_weights=False)[1]
    assert weights.shape == (B, H, T, S + 2)
    assert bool((weights[..., S:] > 0).all())
    assert bool((weights[:, :, 0, 1:S] == 0).all())
    context = made(*given_, need_weights=False)[0]
    assert close(context, made(*given_)[0])


@pytest.mark.parametrize("place", ["scores", "context", "output"])
def test_dropout_has_its_place(place: str) -> None:
    torch.manual_seed(3)
    plain = module()
    torch.manual_seed(3)
    made = module(dropouts=AttentionDropouts(**{place: 0.5}))
    given_ = tokens()
    assert torch.equal(made.eval()(*given_)[0], plain.eval()(*given_)[0])
    output, weights = made.train()(*given_, average_attn_weights=False)
    kept, ours = plain.train()(*given_, average_attn_weights=False)
    assert torch.equal(weights, ours) == (place != "scores")
    assert (bool((output == 0).any()) and not bool((kept == 0).any())) == (place == "output")
    assert not torch.allclose(output, kept)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "kv heads": ({"kv_heads": 3}, "kv_heads 3 does not divide"),
    "no kv heads": ({"kv_heads": 0}, "kv_heads 0"),
    "head_dim": ({"head_dim": 0}, "head_dim=0"),
    "fused widths": ({"projections": Fused(), "kdim": 9}, "Separate"),
    "k = v widths": ({"projections": SharedKeyValue(), "vdim": 9}, "9 \\(value\\)"),
    "q = k widths": ({"projections": SharedQueryKey(), "kdim": 9}, "9 \\(key\\)"),
    "q = k heads": ({"projections": SharedQueryKey(), "kv_heads": 2}, "2 kv heads"),
}


@pytest.mark.parametrize(("parts", "text"), REFUSED.values(), ids=REFUSED)
def test_parts_that_do_not_fit_are_refused(parts: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        MultiheadAttention(E, H, **parts)


MISFITS: dict[str, tuple[dict[str, Any], str]] = {
    "sinks": ({"sinks": Sinks(3)}, r"make Sinks\(4\)"),
    "t5": ({"positions": T5Bias(3)}, r"make T5Bias\(4\)"),
    "shaw": ({"positions": ShawKeys(3)}, r"make ShawKeys\(6\)"),
    "odd rotary": ({"positions": Rotary(share=0.2)}, "1 features"),
}


@pytest.mark.parametrize(("parts", "text"), MISFITS.values(), ids=MISFITS)
def test_parts_of_other_sizes_are_refused(parts: dict[str, Any], text: str) -> None:
    x = torch.randn(T, B, E)
    with pytest.raises(InputError, match=text):
        MultiheadAttention(E, H, **parts)(x, x, x)


BAD_PARTS: dict[str, tuple[Any, str]] = {
    "pairing": (lambda: Rotary(pairing="both"), "pairing='both'"),  # type: ignore[arg-type]
    "base": (lambda: Rotary(base=0), "base=0"),
    "share": (lambda: Rotary(share=1.5), "share=1.5"),
    "cap": (lambda: Softcap(0.0), "cap=0.0"),
    "buckets": (lambda: T5Bias(2, buckets=3), "buckets=3"),
    "reach": (lambda: ShawKeys(4, reach=0), "reach=0"),
    "dropout": (lambda: AttentionDropouts(output=2.0), "output=2.0"),
    "cache": (lambda: KeyValueCache(window=0), "window=0"),
    "window": (lambda: Window(0), "size=0"),
    "corner": (lambda: Causal("left"), "alignment='left'"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("make", "text"), BAD_PARTS.values(), ids=BAD_PARTS)
def test_arguments_of_parts_are_checked(make: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        make()
