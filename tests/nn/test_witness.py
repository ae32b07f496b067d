"""A call of the latest forward is that of the forward, or is refused: no change goes unnoticed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnscope.errors import ReplayError
from attnscope.nn import (
    AttentionDropouts,
    Causal,
    MultiheadAttention,
    Padding,
    Rotary,
    Sinks,
    Softcap,
    Window,
)
from attnscope.nn.witness import entries_of

B, T, E, H = 2, 5, 8, 2


class Noisy(nn.Module):
    """A part of the user's own that draws numbers, and keeps a setting where nobody looks."""

    def __init__(self) -> None:
        super().__init__()
        self.noise = 0.1
        self.shifts = [1.0]

    def forward(self, scores: Tensor) -> Tensor:
        return scores * self.shifts[0] + self.noise * torch.rand_like(scores)


def module(**parts: Any) -> MultiheadAttention:
    return MultiheadAttention(E, H, batch_first=True, **parts)


def refused(made: MultiheadAttention) -> str:
    with pytest.raises(ReplayError) as error:
        _ = made.last_call
    assert "attnscope.record(module)" in error.value.todo
    return error.value.found


def everything() -> MultiheadAttention:
    return module(
        positions=Rotary(),
        scores=Softcap(2.0),
        sinks=Sinks(H),
        mask=Causal(),
        dropout=0.2,
        dropouts=AttentionDropouts(output=0.1),
    )


def set_data(made: MultiheadAttention, _: Tensor) -> None:
    made.in_proj_weight.data.mul_(3)


SETTINGS: dict[str, Callable[[Any], Any]] = {
    "mask": lambda m: setattr(m, "mask", None),
    "another mask": lambda m: setattr(m, "mask", Causal() & Window(2)),
    "scale": lambda m: setattr(m, "scale", 3.0),
    "dropout": lambda m: setattr(m, "dropout", 0.0),
    "dropouts": lambda m: setattr(m, "dropouts", AttentionDropouts()),
    "base": lambda m: setattr(m.positions, "base", 2.0),
    "pairing": lambda m: setattr(m.positions, "pairing", "interleaved"),
    "cap": lambda m: setattr(m.scores, "cap", 1.0),
    "no positions": lambda m: setattr(m, "positions", None),
    "no cap": lambda m: setattr(m, "scores", None),
    "another cap": lambda m: setattr(m, "scores", Softcap(1.0)),
}


@pytest.mark.parametrize("change", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("tokens", [T, 1])
def test_a_changed_setting_is_noticed(*, change: Callable[[Any], Any], tokens: int) -> None:
    """Also where it makes no difference to the output, as for a single token."""
    made, x = everything(), torch.randn(B, tokens, E)
    made(x, x, x)
    change(made)
    assert "a setting of the module or of one of its parts was changed" in refused(made)


UNSEEN: dict[str, Callable[[Any, Tensor, Tensor], Any]] = {
    "input by data": lambda _, x, __: x.data.zero_(),
    "a token of it": lambda _, x, __: x.data[1, 3].zero_(),
    "the last token": lambda _, x, __: x.data[1, -1].zero_(),
    "order of tokens": lambda _, x, __: x.data.copy_(x.flip(1)),
    "input by numpy": lambda _, x, __: x.numpy().fill(0),
    "weight by data": lambda m, *_: m.in_proj_weight.data.mul_(3),
    "a row of it": lambda m, *_: m.in_proj_weight.data[-1].mul_(2),
    "bias by data": lambda m, *_: m.out_proj.bias.data[3].add_(1),
    "sinks by data": lambda m, *_: m.sinks.logits.data.fill_(4),
    "padding by data": lambda _, __, real: real.data.fill_(value=True),
}


@pytest.mark.parametrize("change", UNSEEN.values(), ids=UNSEEN)
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("train", [True, False])
def test_what_no_version_tells_of_shows_in_the_output(
    *, change: Callable[[Any, Tensor, Tensor], Any], need_weights: bool, train: bool
) -> None:
    made, x = module(sinks=Sinks(H), mask=Causal()).train(train), torch.randn(B, T, E)
    real = torch.arange(T) < torch.tensor([[T], [2]])
    with torch.no_grad():
        made(x, x, x, need_weights=need_weights, mask=Padding(real))
        change(made, x, real)
    assert "another output than that of the forward" in refused(made)


@pytest.mark.parametrize("where", [slice(None), (0, 0), (1, 4), (slice(None), slice(2, 4), 1)])
@pytest.mark.parametrize("mask", [None, Causal()])
def test_inputs_changed_in_inference_mode_are_noticed(*, where: Any, mask: Causal | None) -> None:
    made = module(mask=mask).eval()
    with torch.inference_mode():
        x = torch.randn(B, T, E)
        made(x, x, x)
        x[where] += 1
        assert "another output" in refused(made)
        weights = made(x, x, x, average_attn_weights=False)[1]
        assert weights is not None
        assert torch.allclose(made.last_call.weights(), weights, atol=1e-6)


def test_tensors_inside_masks_and_tuples_have_versions() -> None:
    made, x = module(positions=Rotary()), torch.randn(B, T, E)
    real = torch.ones(B, T, dtype=torch.bool)
    places = torch.arange(T), torch.arange(T) + 2
    made(x, x, x, mask=Causal() & Padding(real))
    real[0, 1] = False
    assert "an argument of it was changed" in refused(made)
    made(x, x, x, positions=places)
    places[1].add_(1)
    assert "an argument of it was changed" in refused(made)


def test_a_cache_that_was_changed_is_noticed() -> None:
    made, x = module(mask=Causal()), torch.randn(B, T, E)
    cache = made.new_cache()
    with torch.no_grad():
        made(x, x, x, cache=cache)
        made(x[:, :1], x[:, :1], x[:, :1], cache=cache)
        assert made.last_call.keys == T + 1
        made(x[:, :1], x[:, :1], x[:, :1], cache=cache)
        assert cache.values is not None
        cache.values.mul_(2)
    assert "another output" in refused(made)


def test_numbers_and_settings_that_nobody_knows_of_are_noticed() -> None:
    made, x = module(scores=Noisy()), torch.randn(B, T, E)
    made(x, x, x)
    assert "another output" in refused(made)
    made.scores.noise = 0.0  # type: ignore[union-attr]
    made(x, x, x)
    made.scores.shifts[0] = 2.0  # type: ignore[union-attr, operator]
    assert "another output" in refused(made)


def test_what_the_user_does_with_the_output_is_no_change() -> None:
    made, x = module(), torch.randn(B, T, E)
    with torch.no_grad():
        output, weights = made(x, x, x)
        assert weights is not None
        wanted = weights.clone()
        output.zero_()
        weights.zero_()
    assert torch.allclose(made.last_call.weights().mean(1), wanted, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("scale", [1.0, 40.0])
def test_rounding_is_no_change(*, dtype: torch.dtype, scale: float) -> None:
    """PyTorch's inference path rounds otherwise than the recorded one, most with large scores."""
    made, x = module(dtype=dtype).eval(), torch.randn(B, T, E, dtype=dtype) * scale
    with torch.no_grad():
        made(x, x, x)
    assert made.last_call.queries == T


def test_rows_that_see_nothing_are_no_change() -> None:
    made, x = module(), torch.randn(B, T, E)
    output, _ = made(x, x, x, torch.ones(B, T, dtype=torch.bool))
    assert bool(output.isnan().all())
    assert made.last_call.queries == T


def test_no_batch_and_no_tokens() -> None:
    made = module()
    for shape in ((0, T, E), (B, 0, E)):
        x = torch.randn(shape)
        made(x, x, x)
        assert made.last_call.q.numel() == x.numel()


def test_few_entries_are_kept_one_a_row_at_least() -> None:
    for shape in ((3, 7, 6), (3, 7, 1), (4, 5), (1, 1, 9)):
        rows = torch.arange(torch.Size(shape[:-1]).numel()).view(*shape[:-1], 1).expand(shape)
        (found,) = entries_of((rows.contiguous(), None))
        assert set(found.tolist()) == set(range(int(rows.max()) + 1))
        assert found.numel() <= 2 * rows[..., 0].numel()
    turned = torch.arange(12.0).view(2, 6).T
    (found,) = entries_of(turned)
    assert found.untyped_storage().nbytes() == found.nbytes


def test_each_thread_has_its_own_latest_forward() -> None:
    made = module()
    found: dict[int, set[int]] = {}
    barrier = threading.Barrier(4)

    def work(number: int) -> None:
        x = torch.full((1, number + 1, E), float(number))
        barrier.wait()
        for _ in range(20):
            made(x, x, x)
            call = made.last_call
            found.setdefault(number, set()).add(call.queries)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: {number + 1} for number in range(4)}
    assert made.last_call.queries in {1, 2, 3, 4}  # this thread made none


def test_a_replica_does_not_answer_for_the_module() -> None:
    made, x = module(), torch.randn(B, T, E)
    made(x, x, x)
    replica = made._replicate_for_data_parallel()  # type: ignore[no-untyped-call]
    assert replica._last is None
    assert made.last_call.queries == T
