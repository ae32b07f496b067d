"""torch.nn's attention modules give the same bits with and without an interceptor."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules import activation, transformer
from torch.overrides import TorchFunctionMode

from attnscope.capture.functions import Kind
from attnscope.capture.interceptor import Interceptor
from attnscope.capture.torchnn import opened, patched_modules

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")

B, T, S, E, H = 3, 7, 5, 12, 2


class Watch:
    """Stands for a recording: takes note of every function and opens what has to be opened."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        mode: Interceptor

        def follow(
            function: Callable[..., Any],
            kind: Kind,  # noqa: ARG001
            args: tuple[Any, ...],
            kwargs: dict[str, Any],
        ) -> Any:
            self.seen.append(getattr(function, "__name__", ""))
            return function(*args, **kwargs)

        def open_up(
            function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
        ) -> Any:
            self.seen.append(function.__name__)
            with mode:
                return opened(function)(*args, **kwargs)

        mode = Interceptor(follow, {F.multi_head_attention_forward: open_up})
        with patched_modules(), mode:
            yield


def leaves(output: Any) -> list[Tensor]:
    if isinstance(output, Tensor):
        return [output]
    return [leaf for item in output if item is not None for leaf in leaves(item)]


def same(run: Callable[[], Any]) -> list[str]:
    """Run twice, plainly and watched; return the functions that were seen."""
    torch.manual_seed(1)
    plain = leaves(run())
    after = torch.get_rng_state()
    torch.manual_seed(1)
    watch = Watch()
    with watch():
        watched = leaves(run())
    assert torch.equal(after, torch.get_rng_state())
    assert len(plain) == len(watched)
    for a, b in zip(plain, watched, strict=True):
        assert a.shape == b.shape
        assert a.stride() == b.stride()
        assert a.dtype == b.dtype
        assert torch.equal(a.nan_to_num(), b.nan_to_num())
        assert torch.equal(a.isnan(), b.isnan())
    return watch.seen


def causal(size: int = T) -> Tensor:
    return torch.ones(size, size, dtype=torch.bool).triu(1)


def padding(*lengths: int, size: int = T) -> Tensor:
    return torch.arange(size) >= torch.tensor(lengths)[:, None]


def additive(mask: Tensor) -> Tensor:
    return torch.zeros(mask.shape).masked_fill(mask, -torch.inf)


MASKS: dict[str, dict[str, Any]] = {
    "none": {},
    "attn bool": {"attn_mask": causal()},
    "attn float": {"attn_mask": additive(causal())},
    "attn 3-D": {"attn_mask": causal().expand(B * H, T, T).clone()},
    "padding": {"key_padding_mask": padding(7, 4, 5)},
    "padding float": {"key_padding_mask": additive(padding(7, 4, 5))},
    "both": {"key_padding_mask": padding(7, 4, 5), "attn_mask": causal()},
    "hint": {"attn_mask": causal(), "is_causal": True},
    "empty row": {"key_padding_mask": padding(7, 0, 5)},
}

CONTEXTS: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "grad": contextlib.nullcontext,
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
}


@pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS)
@pytest.mark.parametrize("masks", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_self_attention(
    *,
    context: Callable[[], contextlib.AbstractContextManager[Any]],
    masks: dict[str, Any],
    train: bool,
    batch_first: bool,
) -> None:
    module = nn.MultiheadAttention(E, H, dropout=0.3, batch_first=batch_first).train(train)
    x = torch.randn((B, T, E) if batch_first else (T, B, E))
    for need, average in ((True, True), (True, False), (False, True)):
        run = partial(module, x, x, x, need_weights=need, average_attn_weights=average, **masks)
        with context():
            seen = same(run)
        fused = (
            batch_first
            and not train
            and context is not contextlib.nullcontext
            and not any(mask.is_floating_point() for mask in masks.values() if mask is not True)
        )
        assert ("_native_multi_head_attention" in seen) == fused
        if not fused:
            assert ("softmax" if need else "scaled_dot_product_attention") in seen


@pytest.mark.parametrize(
    "options",
    [
        {"add_bias_kv": True},
        {"add_zero_attn": True},
        {"kdim": 9, "vdim": 11},
        {"bias": False},
        {"add_bias_kv": True, "add_zero_attn": True, "bias": False},
    ],
)
@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("train", [False, True])
def test_cross_attention(
    *, options: dict[str, Any], need_weights: bool, batched: bool, train: bool
) -> None:
    module = nn.MultiheadAttention(E, H, dropout=0.2, batch_first=True, **options).train(train)
    lead = (B,) if batched else ()
    query = torch.randn(*lead, T, E)
    key = torch.randn(*lead, S, options.get("kdim", E))
    value = torch.randn(*lead, S, options.get("vdim", E))
    hidden = padding(5, 2, 3, size=S) if batched else padding(3, size=S)[0]
    seen = same(
        lambda: module(query, key, value, key_padding_mask=hidden, need_weights=need_weights)
    )
    assert ("baddbmm" if need_weights else "scaled_dot_product_attention") in seen


def test_gradients() -> None:
    module = nn.MultiheadAttention(E, H, dropout=0.2, batch_first=True)
    x = torch.randn(B, T, E)

    def run() -> list[Tensor]:
        module.zero_grad()
        module(x, x, x)[0].square().sum().backward()
        return [p.grad.clone() for p in module.parameters() if p.grad is not None]

    assert "baddbmm" not in same(run)


def test_autocast() -> None:
    module = nn.MultiheadAttention(E, H, batch_first=True).eval()
    x = torch.randn(B, T, E)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        same(lambda: module(x, x, x))


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation_name", ["relu", "gelu"])
@pytest.mark.parametrize("lengths", [None, (7, 4, 5), (5, 4, 2), (7, 0, 3)])
@pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS)
def test_encoder(
    *,
    nested: bool,
    norm_first: bool,
    activation_name: str,
    lengths: tuple[int, ...] | None,
    context: Callable[[], contextlib.AbstractContextManager[Any]],
) -> None:
    layer = nn.TransformerEncoderLayer(
        E, H, 20, activation=activation_name, norm_first=norm_first, batch_first=True
    )
    norm = nn.LayerNorm(E)
    encoder = nn.TransformerEncoder(layer, 2, norm=norm, enable_nested_tensor=nested).eval()
    x = torch.randn(B, T, E)
    hidden = None if lengths is None else padding(*lengths)
    with context():
        seen = same(lambda: encoder(x, src_key_padding_mask=hidden))
    if context is not contextlib.nullcontext:
        assert seen.count("_transformer_encoder_layer_fwd") == 2
        trims = nested and not norm_first and lengths is not None
        assert ("_nested_tensor_from_mask" in seen) == trims


@pytest.mark.parametrize("train", [False, True])
def test_encoder_with_masks(*, train: bool) -> None:
    layer = nn.TransformerEncoderLayer(E, H, 20, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2).train(train)
    x = torch.randn(B, T, E)
    with torch.no_grad():
        same(lambda: encoder(x, mask=causal(), src_key_padding_mask=padding(7, 4, 5)))
        same(lambda: encoder(x, mask=causal(), is_causal=True))


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_whole_transformer(*, train: bool, batch_first: bool) -> None:
    model = nn.Transformer(E, H, 2, 2, 20, batch_first=batch_first).train(train)
    source, target = torch.randn(B, S, E), torch.randn(B, T, E)
    if not batch_first:
        source, target = source.transpose(0, 1), target.transpose(0, 1)
    with torch.no_grad():
        same(
            lambda: model(
                source,
                target,
                tgt_mask=causal(),
                src_key_padding_mask=padding(5, 2, 3, size=S),
                memory_key_padding_mask=padding(5, 2, 3, size=S),
                tgt_key_padding_mask=padding(7, 4, 5),
            )
        )


def test_the_interceptor_would_change_the_result_otherwise() -> None:
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(E, H, batch_first=True), 1).eval()
    x, hidden = torch.randn(B, T, E), padding(5, 4, 2)
    with torch.no_grad():
        plain = encoder(x, src_key_padding_mask=hidden)
        with Interceptor(lambda f, _kind, args, kwargs: f(*args, **kwargs), {}):
            watched = encoder(x, src_key_padding_mask=hidden)
    assert not torch.equal(plain, watched)


class Quiet(TorchFunctionMode):
    """A function mode of the user's own."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", [Quiet, lambda: torch.device("cpu")])
@pytest.mark.parametrize("need_weights", [False, True])
def test_overrides_of_the_user_are_answered_as_ever(
    *, mode: Callable[[], Any], need_weights: bool
) -> None:
    module = nn.MultiheadAttention(E, H, batch_first=True, add_zero_attn=need_weights).eval()
    x = torch.randn(B, T, E)
    with torch.no_grad(), mode():
        seen = same(lambda: module(x, x, x, need_weights=need_weights))
        assert "_native_multi_head_attention" not in seen
    watch = Watch()
    with torch.no_grad(), mode():
        plain = module(x, x, x, need_weights=need_weights)[0]
    with torch.no_grad(), watch(), mode():
        assert torch.equal(module(x, x, x, need_weights=need_weights)[0], plain)


def test_a_default_device_hides_nothing() -> None:
    module = nn.MultiheadAttention(E, H, batch_first=True)
    x = torch.randn(B, T, E)
    with torch.device("cpu"):
        assert "softmax" in same(lambda: module.eval()(x, x, x))


class Labelled(Tensor):
    """A tensor subclass, which PyTorch hands every function."""


def test_a_tensor_subclass_is_answered_as_ever() -> None:
    module = nn.MultiheadAttention(E, H, batch_first=True).eval()
    x = torch.randn(B, T, E).as_subclass(Labelled)
    with torch.no_grad():
        seen = same(lambda: module(x, x, x))
    assert "_native_multi_head_attention" not in seen


def test_everything_is_restored() -> None:
    before = activation.__dict__["torch"], transformer.__dict__["torch"]
    forward = nn.MultiheadAttention.forward
    with patched_modules(), patched_modules():
        assert activation.__dict__["torch"] is not before[0]
        assert nn.MultiheadAttention.forward is forward
    assert (activation.__dict__["torch"], transformer.__dict__["torch"]) == before
    with pytest.raises(KeyError), patched_modules():
        raise KeyError
    assert (activation.__dict__["torch"], transformer.__dict__["torch"]) == before


def test_overlapping_recordings_of_threads() -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with patched_modules():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with patched_modules():
        thread.start()
        inside.wait(10)
    assert activation.__dict__["torch"] is not torch
    module = nn.MultiheadAttention(E, H, batch_first=True).eval()
    x = torch.randn(B, T, E)
    with torch.no_grad():
        meanwhile = module(x, x, x)[0]
    leave.set()
    thread.join()
    assert activation.__dict__["torch"] is torch
    with torch.no_grad():
        assert torch.equal(module(x, x, x)[0], meanwhile)


def test_other_functions_are_not_opened() -> None:
    assert opened(F.softmax) is F.softmax
