"""Attention over many chunks of the keys is one call, however many chunks there are."""

import torch
from torch import Tensor

from attnscope.calls.recipe import Recipe
from attnscope.capture import record
from attnscope.capture.recorded import RecordedEvidence


def blockwise(q: Tensor, k: Tensor, v: Tensor, keys: int) -> Tensor:
    top = torch.full((*q.shape[:-1], 1), -torch.inf)
    total, summed = torch.zeros_like(top), torch.zeros_like(q)
    for start in range(0, k.shape[-2], keys):
        s = q @ k[..., start : start + keys, :].mT * 0.5
        new = torch.maximum(top, s.amax(-1, keepdim=True))
        p, carry = torch.exp(s - new), torch.exp(top - new)
        total = total * carry + p.sum(-1, keepdim=True)
        summed = summed * carry + p @ v[..., start : start + keys, :]
        top = new
    return summed / total


def test_hundreds_of_chunks_are_one_softmax() -> None:
    q, k, v = torch.randn(2, 2, 3, 4), torch.randn(2, 2, 1401, 4), torch.randn(2, 2, 1401, 4)
    with record() as trace:
        output = blockwise(q, k, v, 2)
    (call,) = trace
    recipe: Recipe = call.recipe
    assert (recipe.normaliser, recipe.scale, recipe.unknown) == ("softmax", 0.5, ())
    torch.testing.assert_close(call.k, k)
    assert call.replay_error == 0.0
    torch.testing.assert_close(call.context(), output)


def test_a_later_chunk_is_written_down_without_the_earlier_ones() -> None:
    q, k, v = torch.randn(1, 1, 3, 4), torch.randn(1, 1, 40, 4), torch.randn(1, 1, 40, 4)
    with record() as trace:
        blockwise(q, k, v, 4)
    (call,) = trace
    parts: list[RecordedEvidence] = call.evidence.parts  # type: ignore[attr-defined]
    sizes = {len(part.chain.program.operations) for part in parts[1:]}
    assert len(sizes) == 1
    assert torch.cat([part.value("weights") for part in parts], -1).isfinite().all()
    assert max(sizes) < 10
