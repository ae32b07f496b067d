"""What the adapter says about FlexAttention gives the operator's own output."""
# ruff: noqa: ARG005  the modifiers have the parameters that FlexAttention gives them

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from attnscope.calls.tolerance import replay
from attnscope.capture.adapters.flex import FlexAttention
from attnscope.capture.interceptor import Handler, Interceptor
from attnscope.capture.kernel import KernelCall
from tests.capture.adapters.replaying import error_of

B, H, T, S, D = 2, 4, 9, 11, 16


@contextlib.contextmanager
def reading() -> Iterator[list[KernelCall]]:
    found: list[KernelCall] = []

    def handle(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        output = function(*args, **kwargs)
        found.extend(FlexAttention().read(function, args, kwargs, output))
        return output

    def follow(function: Callable[..., Any], _kind: Any, args: Any, kwargs: Any) -> Any:
        return function(*args, **kwargs)

    (operator,) = FlexAttention().functions()
    handlers: dict[Callable[..., Any], Handler] = {operator: handle}
    with torch.compiler.set_stance("force_eager"), Interceptor(follow, handlers):
        yield found


def run(
    kv_heads: int = H, keys: int = S, dtype: torch.dtype = torch.float32, **options: Any
) -> KernelCall:
    q = torch.randn(B, H, T, D, dtype=dtype)
    k, v = torch.randn(2, B, kv_heads, keys, D, dtype=dtype)
    plain = flex_attention(q, k, v, enable_gqa=kv_heads < H, **options)
    with reading() as found:
        output = flex_attention(q, k, v, enable_gqa=kv_heads < H, **options)
    for a, b in zip(flat(plain), flat(output), strict=True):
        assert torch.equal(a, b)
    (kernel,) = found
    assert kernel.output is flat(output)[0]
    assert error_of(kernel) < replay(dtype, keys, D)
    return kernel


def flat(output: Any) -> list[Tensor]:
    return [output] if isinstance(output, Tensor) else [part for part in output if part is not None]


def block_mask(mask_mod: Callable[..., Tensor], keys: int = S, **sizes: int | None) -> BlockMask:
    return create_block_mask(mask_mod, sizes.get("B"), sizes.get("H"), T, keys, device="cpu")


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_plain(kv_heads: int, dtype: torch.dtype) -> None:
    kernel = run(kv_heads, dtype=dtype, scale=0.3)
    recipe = kernel.recipe
    assert kernel.scores is None
    assert (recipe.scale, recipe.group, recipe.mask.kind) == (0.3, H // kv_heads, "none")


def test_causal() -> None:
    recipe = run(keys=T, block_mask=block_mask(lambda b, h, q, k: q >= k, T)).recipe
    assert (recipe.mask.causal, recipe.mask.tensor) == ("top-left", None)


def test_masks_that_differ_between_samples_and_heads() -> None:
    lengths = torch.tensor([5, 9])
    mask = block_mask(lambda b, h, q, k: (k < lengths[b]) & (k != h), B=B, H=H)
    recipe = run(block_mask=mask).recipe
    seen = recipe.mask.dense(T, S).expand(B, H, T, S)
    assert not seen[0, :, :, 5:].any()
    assert not any(seen[:, head, :, head].any() for head in range(H))
    assert seen[1, 0, :, 1:9].all()


def test_empty_rows_give_zeros() -> None:
    recipe = run(block_mask=block_mask(lambda b, h, q, k: q > k)).recipe
    assert recipe.empty_row == "zero"


def test_a_soft_cap_is_read() -> None:
    kernel = run(score_mod=lambda s, b, h, q, k: 20 * torch.tanh(s / 20))
    recipe = kernel.recipe
    assert recipe.softcap == pytest.approx(20)
    assert recipe.scale == pytest.approx(D**-0.5)
    assert recipe.unknown == ()


def test_a_bias_is_read() -> None:
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625])
    mask = block_mask(lambda b, h, q, k: q >= k, T)
    kernel = run(
        2,
        keys=T,
        score_mod=lambda s, b, h, q, k: s - slopes[h] * (q - k),
        block_mask=mask,
    )
    recipe = kernel.recipe
    assert recipe.bias is not None
    assert recipe.mask.kind == "causal"
    distance = torch.arange(T)[:, None] - torch.arange(T)
    seen = distance >= 0
    expected = -slopes[:, None, None] * distance
    actual = recipe.bias.expand(1, H, T, T)[0]
    torch.testing.assert_close(actual[:, seen], expected[:, seen])


def test_what_can_not_be_read_is_still_replayed() -> None:
    recipe = run(score_mod=lambda s, b, h, q, k: s.abs().sqrt() + torch.sin(s)).recipe
    assert recipe.unknown[0] == "score_mod"


def test_the_log_sum_exp_is_passed_on() -> None:
    """PyTorch refuses it on the CPU at the front door; the operator itself returns it."""
    q, k, v = torch.randn(3, B, H, T, D)
    mask = block_mask(lambda b, h, i, j: i >= j, T).as_tuple()
    (operator,) = FlexAttention().functions()
    with reading() as found:
        output = operator(q, k, v, lambda s, *_: s, mask, 0.25, {})
    assert len(output) == 3
    assert found[0].output is output[0]
    scores = found[0].recipe.scores(q, k)
    torch.testing.assert_close(scores.logsumexp(-1) / math.log(2), output[1])


def test_reading_inside_a_recording_and_without_overrides() -> None:
    table = torch.randn(T, S)
    q, k, v = torch.randn(B, H, T, D), torch.randn(B, H, S, D), torch.randn(B, H, S, D)
    with reading() as found:
        flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + table[i, j])
        inside = found[0].recipe.bias
    with torch._C.DisableTorchFunction():
        after = found[0].recipe.bias
    assert inside is not None
    assert after is not None
    torch.testing.assert_close(inside[0, 0], table)
    assert torch.equal(inside, after)


def test_a_large_mask_is_asked_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnscope.capture.adapters.flex._BLOCK_ENTRIES", 3 * B * H * S)
    mask = block_mask(lambda b, h, q, k: (q < 4) | (k != h), H=H)
    seen = run(block_mask=mask).recipe.mask.dense(T, S).expand(1, H, T, S)
    assert seen[:, :, :4].all()
    assert not any(seen[:, head, 4:, head].any() for head in range(H))
