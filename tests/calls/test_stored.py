"""Calls that were saved and loaded show what the calls showed before."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import attnscope
from attnscope.calls import Call, Trace
from attnscope.calls.blobs import TYPES, TensorReader, TensorWriter, content_id
from attnscope.calls.encoding import decode, encode
from attnscope.calls.evidence import NAMES
from attnscope.calls.numbers import HeadNumbers
from attnscope.errors import ReplayError
from tests.styles import STYLES, Style

MATRICES = ("scores", "weights")


def run(model: Any, inputs: Any) -> Trace:
    if isinstance(inputs, dict):
        return attnscope.trace(model, **inputs)
    return attnscope.trace(model, *inputs)


def reloaded(trace: Trace, path: Path) -> Trace:
    trace.save(path / "run")
    return attnscope.load(path / "run")


def value(call: Call, name: str) -> Tensor | str:
    try:
        return call.evidence.value(name)
    except ReplayError as error:
        return f"{error.found}; {error.todo}"


def compare(call: Call, loaded: Call) -> None:
    """Everything that is stored is the same bits; what is derived is so up to rounding."""
    for name in NAMES:
        before, after = value(call, name), value(loaded, name)
        if isinstance(before, str) or isinstance(after, str):
            assert before == after
            continue
        exact = name not in MATRICES or name in loaded.evidence.record.tensors  # type: ignore[attr-defined]
        bound = 0.0 if exact else 1e-5
        torch.testing.assert_close(after, before, rtol=bound, atol=bound, equal_nan=True)
    if not isinstance(value(call, "weights"), str):
        assert repr(loaded.numbers()) == repr(call.numbers())
    assert repr(loaded.replay_error) == repr(call.replay_error)
    assert loaded.shapes() == call.shapes()
    assert loaded.source == call.source
    assert repr(loaded) == repr(call)
    assert repr(loaded.recipe.to_json()) == repr(call.recipe.to_json())
    assert loaded.recipe.mask.kinds == call.recipe.mask.kinds


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.name)
def test_a_style_comes_back(style: Style, tmp_path: Path) -> None:
    trace = run(style.build(), style.inputs())
    loaded = reloaded(trace, tmp_path)
    for before, after in zip(trace, loaded, strict=True):
        compare(before, after)


@pytest.mark.parametrize("train", [False, True])
def test_modules_of_torch_come_back(tmp_path: Path, *, train: bool) -> None:
    model = nn.Transformer(16, 2, 1, 1, 32, dropout=0.0, batch_first=True).train(train)
    with torch.no_grad():
        trace = run(model, (torch.randn(2, 6, 16), torch.randn(2, 4, 16)))
        loaded = reloaded(trace, tmp_path)
    assert len(loaded) == 3
    assert torch.equal(loaded.output, trace.output)
    for before, after in zip(trace, loaded, strict=True):
        compare(before, after)


class ByHand(nn.Module):
    """Hand-written attention: heads of width 4, a fill for hidden keys, dropout."""

    def __init__(self, fill: float = -math.inf, dropout: float = 0.0) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.fill, self.dropout = fill, dropout

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT / 2
        if bias is not None:
            scores = scores + bias
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).tril()
        weights = scores.masked_fill(~seen, self.fill).softmax(-1)
        context: Tensor = functional.dropout(weights, self.dropout) @ v
        return context


@pytest.mark.parametrize("fill", [-math.inf, -1e9, torch.finfo(torch.float32).min])
def test_the_fill_of_hidden_keys_comes_back(tmp_path: Path, fill: float) -> None:
    trace = run(ByHand(fill), (torch.randn(2, 5, 8),))
    loaded = reloaded(trace, tmp_path)
    assert not {"scores", "weights"} & loaded[0].evidence.record.tensors.keys()  # type: ignore[attr-defined]
    assert loaded[0].scores()[0, 0, 0, 4] == torch.tensor(fill)
    compare(trace[0], loaded[0])


def test_what_the_recipe_does_not_give_is_stored(tmp_path: Path) -> None:
    trace = run(ByHand(-10.0), (torch.randn(2, 5, 8),))
    loaded = reloaded(trace, tmp_path)
    for name in MATRICES:
        torch.testing.assert_close(
            value(loaded[0], name), value(trace[0], name), rtol=1e-5, atol=1e-5
        )


def test_nan_and_infinity_come_back(tmp_path: Path) -> None:
    x = torch.randn(1, 2, 4, 8)
    x[0, 0, 1, 2], x[0, 1, 2, 3] = math.nan, math.inf
    trace = attnscope.trace(lambda x: functional.scaled_dot_product_attention(x, x, x), x)
    loaded = reloaded(trace, tmp_path)
    compare(trace[0], loaded[0])
    assert any(math.isnan(number) for number in loaded[0].numbers().entropy)


def gradients(model: nn.Module, *inputs: Tensor) -> Trace:
    with attnscope.record(model) as trace:
        model(*inputs).square().sum().backward()
    return trace


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_gradients_come_back(tmp_path: Path, dropout: float) -> None:
    trace = gradients(ByHand(dropout=dropout), torch.randn(2, 5, 8))
    loaded = reloaded(trace, tmp_path)
    for name in NAMES:
        before, after = trace[0].evidence.gradient(name), loaded[0].evidence.gradient(name)
        bound = 1e-5 if name in MATRICES else 0.0
        torch.testing.assert_close(after, before, rtol=bound, atol=bound)
    stored = loaded[0].evidence.record.gradients  # type: ignore[attr-defined]
    assert set(MATRICES).isdisjoint(stored) == (not dropout)


def test_gradients_of_a_fused_kernel_come_back(tmp_path: Path) -> None:
    class Grouped(nn.Module):
        def forward(self, q: Tensor, k: Tensor) -> Tensor:
            return functional.scaled_dot_product_attention(q, k, k, is_causal=True, enable_gqa=True)

    q, k = (torch.randn(2, heads, 5, 8, requires_grad=True) for heads in (4, 2))
    trace = gradients(Grouped(), q, k)
    loaded = reloaded(trace, tmp_path)
    for name in NAMES:
        before, after = trace[0].evidence.gradient(name), loaded[0].evidence.gradient(name)
        torch.testing.assert_close(after, before, rtol=1e-5, atol=1e-6)


def test_no_backward_says_so(tmp_path: Path) -> None:
    trace = run(ByHand(), (torch.randn(2, 5, 8),))
    loaded = reloaded(trace, tmp_path)
    for name in NAMES:
        with pytest.raises(ReplayError, match="no backward reached this call"):
            loaded[0].evidence.gradient(name)


def test_calls_without_values_come_back_as_shapes(tmp_path: Path) -> None:
    trace = attnscope.trace(ByHand().to("meta"), torch.randn(2, 5, 8, device="meta"))
    loaded = reloaded(trace, tmp_path)
    call = loaded[0]
    assert (call.batch, call.heads, call.queries, call.keys) == (2, 2, 5, 5)
    assert call.replay_error is None
    assert call.shapes() == trace[0].shapes()
    for name in NAMES:
        with pytest.raises(ReplayError, match=r"ran without values .*; trace the model again"):
            call.evidence.value(name)
    with pytest.raises(ReplayError):
        call.numbers()
    assert loaded.output is None
    assert "the model's output is not stored" in loaded.notes[0]


def test_a_trace_of_numbers_comes_back(tmp_path: Path) -> None:
    bias = torch.randn(1, 1, 5, 5)
    trace = attnscope.trace(ByHand(), torch.randn(2, 5, 8), bias, keep="numbers")
    loaded = reloaded(trace, tmp_path)
    assert loaded[0].numbers() == trace[0].numbers()
    assert loaded[0].replay_error == 0.0
    assert loaded[0].recipe.bias is not None
    assert loaded[0].recipe.bias.is_meta
    with pytest.raises(ReplayError, match='keep="numbers" kept no tensors; record with keep="qkv"'):
        loaded[0].weights()


def test_a_tensor_that_was_changed_since_is_missing_and_the_rest_comes_back(tmp_path: Path) -> None:
    x = torch.randn(1, 2, 4, 8)
    y = torch.randn(1, 2, 4, 8)
    trace = attnscope.trace(lambda q, k: functional.scaled_dot_product_attention(q, k, k), x, y)
    x.zero_()
    loaded = reloaded(trace, tmp_path)
    assert torch.equal(loaded[0].k, y)
    with pytest.raises(ReplayError, match="changed in place"):
        _ = loaded[0].q
    assert loaded[0].replay_error is None


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("shape", [(3, 4), (0, 4), ()])
def test_tensors_of_every_type_come_back(tmp_path: Path, name: str, shape: tuple[int, ...]) -> None:
    plain = torch.randint(0, 2, shape, generator=torch.Generator().manual_seed(0))
    tensor = plain.to(torch.float32).to(TYPES[name])
    writer = TensorWriter(tmp_path)
    stored = writer.add(tensor)
    writer.flush()
    again = TensorReader(tmp_path, writer.files, writer.blobs).read(stored)
    assert (again.dtype, again.shape) == (tensor.dtype, tensor.shape)
    assert content_id(again) == content_id(tensor)


def test_views_come_back_and_repeated_axes_take_no_space(tmp_path: Path) -> None:
    base = torch.randn(6, 8)
    tensors = [base, base.mT, base[::2], base.view(8, 6), base[:, None].expand(6, 500, 8)]
    tensors.append(torch.view_as_complex(base.view(6, 4, 2)).conj())
    writer = TensorWriter(tmp_path)
    stored = [writer.add(tensor) for tensor in tensors]
    writer.flush()
    reader = TensorReader(tmp_path, writer.files, writer.blobs)
    assert all(torch.equal(reader.read(s), t) for s, t in zip(stored, tensors, strict=True))
    assert sum(writer.files.values()) < 6 * base.nbytes + 2000


def test_what_safetensors_cannot_hold_is_kept_as_a_shape(tmp_path: Path) -> None:
    writer = TensorWriter(tmp_path)
    stored = writer.add(torch.zeros(2, 3, dtype=torch.complex128))
    again = TensorReader(tmp_path, {}, {}).read(stored)
    assert again.is_meta
    assert again.shape == (2, 3)


def test_numbers_that_json_lacks_are_strings() -> None:
    numbers = HeadNumbers((math.nan, 1.0), (math.inf, -math.inf), (0.1, 5.0))
    plain = encode(numbers)
    assert plain == {"entropy": ["nan", 1.0], "max_weight": ["inf", "-inf"], "visible": [0.1, 5.0]}
    assert repr(decode(HeadNumbers, plain)) == repr(numbers)
    with pytest.raises(ValueError, match=r"entropy\[0\] should be a number, it is 'NaN'"):
        decode(HeadNumbers, {**plain, "entropy": ["NaN"]})


def test_what_is_no_data_is_refused() -> None:
    with pytest.raises(TypeError, match="a function can't be stored"):
        encode(run)
