"""torch.nn's own attention modules give the same bits on every path, with padding too."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.capture.promise.runs import undisturbed

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")

CONTEXTS: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "grad": contextlib.nullcontext,
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
}
every_context = pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS)
every_mode = pytest.mark.parametrize("train", [True, False], ids=["train", "eval"])


def padding(*lengths: int) -> Tensor:
    return torch.arange(5) >= torch.tensor(lengths)[:, None]


MASKS: dict[str, dict[str, Tensor]] = {
    "none": {},
    "causal": {"mask": torch.ones(5, 5, dtype=torch.bool).triu(1)},
    "padding": {"src_key_padding_mask": padding(5, 3)},
    "float padding": {
        "src_key_padding_mask": torch.zeros(2, 5).masked_fill(padding(5, 3), -torch.inf)
    },
    "nothing visible": {"src_key_padding_mask": padding(5, 0)},
    "both": {
        "mask": torch.ones(5, 5, dtype=torch.bool).triu(1),
        "src_key_padding_mask": padding(4, 2),
    },
}


def encoder(*, norm_first: bool = False, nested: bool = True) -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, 4, 8, 0.1, batch_first=True, norm_first=norm_first)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested)


ENCODERS: dict[str, Callable[[], nn.Module]] = {
    "nested": encoder,
    "not nested": partial(encoder, nested=False),
    "norm first": partial(encoder, norm_first=True, nested=False),
}


@pytest.mark.parametrize("build", ENCODERS.values(), ids=ENCODERS)
@pytest.mark.parametrize("masks", MASKS.values(), ids=MASKS)
@every_context
@every_mode
def test_encoder(
    build: Callable[[], nn.Module],
    masks: dict[str, Tensor],
    context: Callable[[], contextlib.AbstractContextManager[Any]],
    train: bool,  # noqa: FBT001
) -> None:
    def run(model: nn.Module) -> Any:
        with context():
            return model.train(train)(torch.randn(2, 5, 16), **masks)

    trace = undisturbed(build, run)
    assert [call.module for call in trace] == [f"layers.{n}.self_attn" for n in range(2)] or (
        [call.module for call in trace] == ["layers.0", "layers.1"]
    )


def attention(model: nn.Module, **options: Any) -> Any:
    x = torch.randn(*((2, 5) if model.batch_first else (5, 2)), 16).requires_grad_()
    out, weights = model(x, x, x, **options)
    if out.requires_grad:
        out.square().sum().backward()
    return out, weights, x.grad


OPTIONS: dict[str, dict[str, Any]] = {
    "weights": {},
    "no weights": {"need_weights": False},
    "weights of each head": {"average_attn_weights": False},
    "padding": {"key_padding_mask": padding(5, 3)},
    "mask": {"attn_mask": torch.ones(5, 5, dtype=torch.bool).triu(1), "need_weights": False},
    "hint": {
        "attn_mask": torch.ones(5, 5, dtype=torch.bool).triu(1),
        "is_causal": True,
        "need_weights": False,
    },
}
MODULES: dict[str, Callable[[], nn.Module]] = {
    "plain": lambda: nn.MultiheadAttention(16, 4, batch_first=True),
    "dropout": lambda: nn.MultiheadAttention(16, 4, dropout=0.4, batch_first=True),
    "tokens first": lambda: nn.MultiheadAttention(16, 4),
    "bias_kv": lambda: nn.MultiheadAttention(
        16, 4, add_bias_kv=True, add_zero_attn=True, batch_first=True
    ),
    "no bias": lambda: nn.MultiheadAttention(16, 4, bias=False, batch_first=True),
}


@pytest.mark.parametrize("build", MODULES.values(), ids=MODULES)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@every_mode
def test_multihead_attention(
    build: Callable[[], nn.Module],
    options: dict[str, Any],
    train: bool,  # noqa: FBT001
) -> None:
    def run(model: nn.Module) -> Any:
        model.train(train)
        first = attention(model, **options)
        with torch.no_grad():
            return first, attention(model, **options)

    trace = undisturbed(build, run)
    assert len(trace) == 2


@pytest.mark.parametrize("build", MODULES.values(), ids=MODULES)
def test_failing_arguments(build: Callable[[], nn.Module]) -> None:
    def run(model: nn.Module) -> Any:
        return attention(model, attn_mask=torch.zeros(3, 3))

    assert len(undisturbed(build, run, fails=True)) == 0


@every_context
@every_mode
def test_transformer(
    context: Callable[[], contextlib.AbstractContextManager[Any]],
    train: bool,  # noqa: FBT001
) -> None:
    def run(model: nn.Module) -> Any:
        with context():
            mask = nn.Transformer.generate_square_subsequent_mask(4)
            return model.train(train)(torch.randn(2, 5, 16), torch.randn(2, 4, 16), tgt_mask=mask)

    def build() -> nn.Module:
        return nn.Transformer(16, 4, 1, 1, 8, batch_first=True)

    assert len(undisturbed(build, run)) == 3


def test_fastpath_switched_off_by_the_user() -> None:
    def run(model: nn.Module) -> Any:
        torch.backends.mha.set_fastpath_enabled(value=False)
        try:
            with torch.no_grad():
                return model.eval()(torch.randn(2, 5, 16), src_key_padding_mask=padding(5, 3))
        finally:
            torch.backends.mha.set_fastpath_enabled(value=True)

    assert len(undisturbed(encoder, run)) == 2
