"""Without parts, attnscope.nn.MultiheadAttention is torch.nn.MultiheadAttention, bit for bit."""

from __future__ import annotations

import copy
import inspect
import itertools
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounter

from attnscope.errors import InputError
from attnscope.nn import Causal, MultiheadAttention, Rotary

B, T, S, E, H = 3, 7, 5, 12, 2
KDIM, VDIM = 9, 11

OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "no bias": {"bias": False},
    "bias kv": {"add_bias_kv": True},
    "zero attention": {"add_zero_attn": True},
    "widths": {"kdim": KDIM, "vdim": VDIM},
    "all": {"add_bias_kv": True, "add_zero_attn": True, "bias": False},
    "dropout": {"dropout": 0.3},
}


def twins(**options: Any) -> tuple[nn.MultiheadAttention, MultiheadAttention]:
    torch.manual_seed(1)
    theirs = nn.MultiheadAttention(E, H, **options)
    torch.manual_seed(1)
    return theirs, MultiheadAttention(E, H, **options)


def same(a: Tensor | None, b: Tensor | None) -> bool:
    if a is None or b is None:
        return a is b
    values = torch.equal(a.nan_to_num(), b.nan_to_num()) and torch.equal(a.isnan(), b.isnan())
    return values and a.stride() == b.stride() and a.dtype == b.dtype


def inputs(options: dict[str, Any], *, cross: bool, batched: bool, **kind: Any) -> list[Tensor]:
    def tokens(number: int, width: int) -> Tensor:
        lead = (B, number) if options.get("batch_first") else (number, B)
        return torch.randn(*(lead if batched else (number,)), width, **kind)

    query = tokens(T, E)
    if not cross:
        return [query] * 3
    return [query, tokens(S, options.get("kdim", E)), tokens(S, options.get("vdim", E))]


def masks(keys: int, *, batched: bool, dtype: torch.dtype) -> Iterator[dict[str, Any]]:
    def hidden(*shape: int) -> Tensor:
        mask = torch.rand(*shape, keys) > 0.6
        mask[..., 0] = False
        return mask

    def added(mask: Tensor) -> Tensor:
        return torch.zeros(mask.shape, dtype=dtype).masked_fill(mask, -torch.inf)

    flat, whole = hidden(T), hidden((B if batched else 1) * H, T)
    padding = hidden(B) if batched else hidden()
    causal = torch.ones(T, keys, dtype=torch.bool).triu(1)
    empty = padding.clone()
    empty[..., :] = True
    yield {}
    yield {"attn_mask": flat}
    yield {"attn_mask": added(flat)}
    yield {"attn_mask": torch.randn(T, keys, dtype=dtype)}
    yield {"attn_mask": whole}
    yield {"key_padding_mask": padding}
    yield {"key_padding_mask": empty}
    yield {"key_padding_mask": added(padding)}
    yield {"attn_mask": flat, "key_padding_mask": padding}
    yield {"attn_mask": added(whole), "key_padding_mask": added(padding)}
    yield {"attn_mask": causal, "is_causal": True}
    yield {"attn_mask": causal, "is_causal": True, "key_padding_mask": padding}


def run(module: nn.Module, given: list[Tensor], **asked: Any) -> tuple[Any, Tensor]:
    torch.manual_seed(5)
    result = module(*given, **asked)
    return result, torch.get_rng_state()


CASES = [
    *itertools.product(OPTIONS, [torch.float32], [True]),
    *itertools.product(["default", "widths", "all"], [torch.float32], [False]),
    *itertools.product(["default", "dropout"], [torch.bfloat16, torch.float64], [True]),
]


@pytest.mark.parametrize(("name", "dtype", "batch_first"), CASES)
@pytest.mark.parametrize("train", [True, False])
def test_results_random_state_and_strides(
    *, name: str, dtype: torch.dtype, batch_first: bool, train: bool
) -> None:
    options = {**OPTIONS[name], "batch_first": batch_first}
    theirs, ours = (module.train(train) for module in twins(dtype=dtype, **options))
    compared = 0
    for cross, batched in itertools.product([False, True], repeat=2):
        if "kdim" in options and not cross:
            continue
        given = inputs(options, cross=cross, batched=batched, dtype=dtype)
        asked: list[dict[str, Any]] = [{"average_attn_weights": cross}, {"need_weights": False}]
        grads = [True] if train else [True, False]
        for mask in masks(S if cross else T, batched=batched, dtype=dtype):
            for ask, grad in itertools.product(asked, grads):
                with torch.set_grad_enabled(grad):
                    expected, random = run(theirs, given, **ask, **mask)
                    actual, our_random = run(ours, given, **ask, **mask)
                assert same(actual[0], expected[0]), (cross, batched, mask, ask, grad)
                assert same(actual[1], expected[1]), (cross, batched, mask, ask, grad)
                assert torch.equal(our_random, random)
                compared += 1
    assert compared >= 48


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("need_weights", [True, False])
def test_gradients(*, name: str, need_weights: bool) -> None:
    options = {**OPTIONS[name], "batch_first": True}
    theirs, ours = twins(dtype=torch.float64, **options)
    given = [
        x.clone().requires_grad_()
        for x in inputs(options, cross=True, batched=True, dtype=torch.float64)
    ]
    for mask in masks(S, batched=True, dtype=torch.float64):
        found = []
        for module in (theirs, ours):
            output, weights = run(module, given, need_weights=need_weights, **mask)[0]
            loss = output.nan_to_num().square().sum()
            if weights is not None:
                loss = loss + weights.nan_to_num().pow(3).sum()
            leaves = [*module.parameters(), *given]
            found.append(torch.autograd.grad(loss, leaves))
        for a, b in zip(*found, strict=True):
            assert torch.allclose(a, b, rtol=1e-12, atol=1e-13, equal_nan=True)


def test_double_backward() -> None:
    theirs, ours = twins(dtype=torch.float64)
    found = []
    x = torch.randn(T, B, E, dtype=torch.float64, requires_grad=True)
    for module in (theirs, ours):
        output = module(x, x, x)[0].square().sum()
        (first,) = torch.autograd.grad(output, x, create_graph=True)
        found.append(torch.autograd.grad(first.square().sum(), [x, *module.parameters()]))
    for a, b in zip(*found, strict=True):
        assert torch.allclose(a, b, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", OPTIONS)
def test_state_dicts_go_both_ways(*, name: str, dtype: torch.dtype) -> None:
    theirs, ours = twins(dtype=dtype, **OPTIONS[name])
    assert list(theirs.state_dict()) == list(ours.state_dict())
    for a, b in zip(theirs.state_dict().values(), ours.state_dict().values(), strict=True):
        assert torch.equal(a, b)  # the same first values of the same seed
        assert a.dtype == b.dtype
    other = nn.MultiheadAttention(E, H, dtype=dtype, **OPTIONS[name])
    ours.load_state_dict(other.state_dict(), strict=True)
    theirs.load_state_dict(ours.state_dict(), strict=True)
    assert all(
        torch.equal(a, b) for a, b in zip(theirs.parameters(), other.parameters(), strict=True)
    )


def test_seeds_are_used_up_alike() -> None:
    theirs, _ = twins(add_bias_kv=True)
    torch.manual_seed(1)
    nn.MultiheadAttention(E, H, add_bias_kv=True)
    after = torch.get_rng_state()
    torch.manual_seed(1)
    ours = MultiheadAttention(E, H, add_bias_kv=True)
    assert torch.equal(after, torch.get_rng_state())
    torch.manual_seed(2)
    theirs._reset_parameters()
    torch.manual_seed(2)
    ours._reset_parameters()
    assert all(
        torch.equal(a, b) for a, b in zip(theirs.parameters(), ours.parameters(), strict=True)
    )


def test_arguments_stand_in_torchs_order() -> None:
    for method in ("__init__", "forward"):
        theirs = list(inspect.signature(getattr(nn.MultiheadAttention, method)).parameters.values())
        ours = list(inspect.signature(getattr(MultiheadAttention, method)).parameters.values())
        for a, b in zip(theirs, ours, strict=False):
            assert (a.name, a.default) == (b.name, b.default)
        beyond = ours[len(theirs) :]
        assert all(p.kind is p.KEYWORD_ONLY and p.default is None for p in beyond)
        assert len(beyond) >= 3


def test_device_and_dtype_are_heeded() -> None:
    module = MultiheadAttention(E, H, device="meta", dtype=torch.float64, add_bias_kv=True)
    assert {p.device.type for p in module.parameters()} == {"meta"}
    assert {p.dtype for p in module.parameters()} == {torch.float64}


@pytest.mark.parametrize("autocast", [True, False])
@pytest.mark.parametrize("grad", [True, False])
def test_autocast(*, autocast: bool, grad: bool) -> None:
    theirs, ours = (module.eval() for module in twins(batch_first=True))
    x = torch.randn(B, T, E)
    with torch.set_grad_enabled(grad), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        for need_weights in (True, False):
            expected = theirs(x, x, x, need_weights=need_weights)
            assert same(ours(x, x, x, need_weights=need_weights)[0], expected[0])
            assert (expected[0].dtype == torch.bfloat16) == autocast


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_nested_inputs_where_torch_takes_them() -> None:
    theirs, ours = (module.eval() for module in twins(batch_first=True))
    x = torch.nested.nested_tensor([torch.randn(3, E), torch.randn(5, E)])
    with torch.no_grad():
        expected = theirs(x, x, x, need_weights=False)[0]
        actual = ours(x, x, x, need_weights=False)[0]
    assert all(torch.equal(a, b) for a, b in zip(actual.unbind(), expected.unbind(), strict=True))
    with pytest.raises(InputError, match="nested"):
        ours.train()(x, x, x)


def test_mismatched_masks_warn_as_torch_does() -> None:
    x = torch.randn(T, B, E)
    mask, padding = torch.zeros(T, T), torch.zeros(B, T, dtype=torch.bool)
    with pytest.warns(UserWarning, match="mismatched key_padding_mask and attn_mask"):
        MultiheadAttention(E, H)(x, x, x, attn_mask=mask, key_padding_mask=padding)


BAD_SIZES: dict[str, tuple[tuple[int, int], str]] = {
    "no width": ((0, 2), "embed_dim=0"),
    "no heads": ((12, 0), "num_heads=0"),
    "not divisible": ((12, 5), "divisible by num_heads 5"),
}


@pytest.mark.parametrize(("sizes", "text"), BAD_SIZES.values(), ids=BAD_SIZES)
def test_bad_sizes_are_refused_as_torch_does(sizes: tuple[int, int], text: str) -> None:
    with pytest.raises((AssertionError, ValueError)) as theirs:
        nn.MultiheadAttention(*sizes)
    with pytest.raises(InputError, match=text) as ours:
        MultiheadAttention(*sizes)
    assert isinstance(ours.value, theirs.type)


def _bad(**changes: Any) -> tuple[list[Tensor], dict[str, Any]]:
    given = {name: torch.randn(T, B, E) for name in ("query", "key", "value")}
    given |= {name: x for name, x in changes.items() if name in given}
    return list(given.values()), {k: x for k, x in changes.items() if k not in given}


BAD_INPUTS: dict[str, tuple[dict[str, Any], str]] = {
    "4-D": ({"query": torch.randn(1, T, B, E)}, "4, 3 and 3 axes"),
    "1-D": ({"query": torch.randn(E)}, "1, 3 and 3 axes"),
    "ranks": ({"key": torch.randn(T, E)}, "3, 2 and 3 axes"),
    "width": ({"query": torch.randn(T, B, 9)}, "embed_dim"),
    "value": ({"value": torch.randn(S, B, E)}, "as many values as keys"),
    "batch": ({"query": torch.randn(T, 2, E)}, "one batch size along axis 1"),
    "mask type": ({"attn_mask": torch.zeros(T, T, dtype=torch.int64)}, "torch.int64"),
    "padding type": ({"key_padding_mask": torch.zeros(B, T, dtype=torch.int8)}, "torch.int8"),
    "mask shape": ({"attn_mask": torch.zeros(T, S)}, r"\(7, 5\); give \(7, 7\)"),
    "mask batch": ({"attn_mask": torch.zeros(B, T, T)}, r"\(6, 7, 7\)"),
    "mask rank": ({"attn_mask": torch.zeros(T)}, r"a shape of \(7,\)"),
    "padding shape": ({"key_padding_mask": torch.zeros(T, B, dtype=torch.bool)}, r"\(3, 7\)"),
    "padding rank": ({"key_padding_mask": torch.zeros(T, dtype=torch.bool)}, r"\(3, 7\)"),
    "hint alone": ({"is_causal": True}, "no attn_mask"),
}


@pytest.mark.parametrize(("changes", "text"), BAD_INPUTS.values(), ids=BAD_INPUTS)
def test_bad_inputs_are_refused_as_torch_does(changes: dict[str, Any], text: str) -> None:
    given, asked = _bad(**changes)
    theirs, ours = twins()
    with pytest.raises((AssertionError, RuntimeError)) as torchs:
        theirs(*given, **asked)
    with pytest.raises(InputError, match=text) as error:
        ours(*given, **asked)
    assert isinstance(error.value, torchs.type)
    assert error.value.doing
    assert error.value.todo


COPIES: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "pickle": lambda module: pickle.loads(pickle.dumps(module)),
}


@pytest.mark.parametrize("make", COPIES.values(), ids=COPIES)
def test_copies_work_alike(make: Callable[[Any], Any]) -> None:
    _, module = twins()
    x = torch.randn(T, B, E)
    expected = module(x, x, x)[0]
    again = make(module)
    assert torch.equal(again(x, x, x)[0], expected)
    assert "_last" not in module.state_dict()


@pytest.mark.parametrize(
    ("backend", "need_weights"), [("eager", True), ("eager", False), ("aot_eager", True)]
)
def test_compiled(*, backend: str, need_weights: bool) -> None:
    theirs, ours = twins(batch_first=True)
    x = torch.randn(B, T, E)
    compiled = torch.compile(ours, backend=backend, fullgraph=True)
    actual = compiled(x, x, x, need_weights=need_weights)[0]
    assert torch.allclose(actual, theirs(x, x, x, need_weights=need_weights)[0], atol=1e-6)


@pytest.mark.parametrize("batch_first", [True, False])
def test_compiled_once_for_all_inputs(*, batch_first: bool) -> None:
    module = MultiheadAttention(E, H, batch_first=batch_first, mask=Causal(), positions=Rotary())
    torch.compiler.reset()  # the limit of recompilations counts all modules of this class
    counter = CompileCounter()
    compiled = torch.compile(module, backend=counter, fullgraph=True)
    for _ in range(3):
        x = torch.randn(B, T, E)
        assert torch.allclose(compiled(x, x, x)[0], module(x, x, x)[0], atol=1e-6)
    assert counter.frame_count == 1


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("train", [True, False])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_inside_torchs_encoder(*, norm_first: bool, train: bool) -> None:
    layer = nn.TransformerEncoderLayer(E, H, 20, norm_first=norm_first, batch_first=True)
    swapped = copy.deepcopy(layer)
    swapped.self_attn = MultiheadAttention(E, H, dropout=0.1, batch_first=True)
    swapped.load_state_dict(layer.state_dict(), strict=True)
    theirs = nn.TransformerEncoder(layer, 2).train(train)
    ours = nn.TransformerEncoder(swapped, 2).train(train)
    x = torch.randn(B, T, E)
    padding = torch.arange(T) >= torch.tensor([7, 5, 4])[:, None]
    attention = ours.layers[1].self_attn
    assert isinstance(attention, MultiheadAttention)
    for grad, masks_ in itertools.product([True, False], [{}, {"src_key_padding_mask": padding}]):
        latest = attention._last
        with torch.set_grad_enabled(grad):
            torch.manual_seed(2)
            expected = theirs(x, **masks_)
            torch.manual_seed(2)
            actual = ours(x, **masks_)
        assert actual.shape == expected.shape
        assert torch.allclose(actual, expected, atol=2e-6)
        assert attention._last is not latest  # the layer called it, and did not compute by itself
        assert attention.last_call.keys == T
