"""A tape runs again what it wrote down: bit for bit, in float64, and with other values."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import attnscope
from attnscope.capture.tape import Tape
from attnscope.targets.architectures import build


def taped(run: Any, *args: Any, **kwargs: Any) -> tuple[Tape, Any]:
    tape = Tape()
    with tape.writing():
        output = run(*args, **kwargs)
    return tape, output


def again(tape: Tape, tensor: Tensor, *, wide: bool = False) -> Tensor:
    value = tape.value_of(tensor)
    assert value is not None
    return tape.run([value], wide=wide)[value]


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert", "deepseek_v3", "t5"])
def test_architectures_run_again_bit_for_bit_and_in_float64(name: str) -> None:
    built = build(name)
    tape, output = taped(built.model, **built.inputs)
    first = next(t for t in output.values() if isinstance(t, Tensor))
    with torch.no_grad():
        assert (again(tape, first) - first).abs().max() <= 1e-6
    wide = again(tape, first, wide=True)
    assert wide.dtype == torch.float64
    assert (wide - first).abs().max() < 1e-5
    assert not tape.faults


def in_place(x: Tensor) -> Tensor:
    x = x * 2
    x += 1
    x[..., 0] = 5.0
    x.masked_fill_(x > 3, 0.0)
    return x.cumsum(-1)


def through_a_view(x: Tensor) -> Tensor:
    made = x.new_empty(*x.shape[:-1], 2 * x.shape[-1])
    made[..., : x.shape[-1]].copy_(x)
    made[..., x.shape[-1] :].copy_(2 * x)
    return made * 1.0


def base_read_after_its_view_changed(x: Tensor) -> Tensor:
    y = x + 0
    first = y[0]
    first.zero_()
    return y.sum(0)


def view_read_after_its_base_changed(x: Tensor) -> Tensor:
    y = x + 0
    first = y[0]
    y.mul_(3)
    return first + 1


def into_out(x: Tensor) -> Tensor:
    made = torch.empty_like(x)
    torch.add(x, 1, out=made)
    return made * 2


def with_lists(x: Tensor) -> Tensor:
    q, k, v = x.unsqueeze(0).expand(3, *x.shape)
    return torch.cat([q, k, v], 0).split([2, 4])[1]


def dropping(x: Tensor) -> Tensor:
    return F.dropout(x, 0.5) + torch.rand_like(x)


def random_from_nowhere(x: Tensor) -> Tensor:
    return x * torch.rand(x.shape)


@pytest.mark.parametrize(
    "run",
    [
        in_place,
        through_a_view,
        base_read_after_its_view_changed,
        view_read_after_its_base_changed,
        into_out,
        with_lists,
        dropping,
        random_from_nowhere,
    ],
    ids=lambda run: run.__name__,
)
def test_changes_of_memory_and_random_numbers_happen_again(run: Any) -> None:
    x = torch.randn(2, 3, 4)
    state = torch.get_rng_state()
    tape, output = taped(run, x)
    after = torch.get_rng_state()
    assert torch.equal(again(tape, output), output)
    assert torch.allclose(again(tape, output, wide=True), output.double(), atol=1e-6)
    assert torch.equal(torch.get_rng_state(), after)
    torch.set_rng_state(state)
    assert torch.equal(run(x), output)


def test_a_value_written_to_through_a_view_is_known_as_it_then_was() -> None:
    x = torch.randn(3, 4)
    tape = Tape()
    with tape.writing():
        y = x + 1
        y[0].zero_()
        z = y * 1
    value = tape.value_of(y)
    assert value is not None
    assert torch.equal(tape.run([value], wide=False)[value], z)


def test_other_values_reach_all_that_follows_and_nothing_else() -> None:
    x = torch.randn(2, 3)
    tape = Tape()
    with tape.writing():
        a = x * 2
        b = a + x
        c = x - 1
    values = [tape.value_of(t) for t in (a, b, c)]
    at_a, at_b, at_c = (value for value in values if value is not None)
    made = tape.run([at_b, at_c], {at_a: torch.zeros(2, 3)}, wide=False)
    assert torch.equal(made[at_b], x)
    assert torch.equal(made[at_c], c)


def test_an_input_changed_after_the_run_is_kept_as_it_was_and_noticed() -> None:
    x = torch.randn(3)
    tape, output = taped(lambda t: t * 2, x)
    x.add_(1)
    with pytest.raises(attnscope.AttnscopeError, match="changed in place"):
        again(tape, output)


def test_half_precision_is_lifted() -> None:
    x = torch.randn(4, 5)

    def half(t: Tensor) -> Tensor:
        return (t.half() @ t.half().mT).to(torch.bfloat16).softmax(-1, dtype=torch.float32)

    tape, output = taped(half, x)
    wide = again(tape, output, wide=True)
    exact = (x.double() @ x.double().mT).softmax(-1)
    assert torch.allclose(wide, exact, atol=1e-12)
    assert not torch.allclose(output.double(), exact, atol=1e-6)


def test_calls_are_recorded_as_without_a_tape() -> None:
    module = nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.randn(2, 5, 8)
    tape = Tape()
    with tape.writing(), attnscope.record(module, keep="all") as trace:
        output, _ = module(x, x, x, need_weights=False)
    assert torch.equal(output, module(x, x, x, need_weights=False)[0])
    assert [call.heads for call in trace] == [2]
    spot = trace[0].evidence.spot("q")
    assert spot is not None
    assert tape.value_of(spot.held) is not None


@pytest.mark.parametrize("name", "llama gpt2 gpt_oss deepseek_v3 falcon deberta-v2".split())
def test_spots_read_and_write_what_a_call_has(name: str) -> None:
    built = build(name)
    with attnscope.record(built.model, keep="all") as trace:
        built.model(**built.inputs)
    for call in trace:
        for what in ("q", "k", "v", "context"):
            spot = call.evidence.spot(what)
            assert spot is not None
            canonical = call.evidence.value(what)
            assert torch.equal(spot.read(spot.held.tensor), canonical)
            assert torch.allclose(spot.write(canonical), spot.held.tensor)


@pytest.mark.parametrize("name", ["llama", "gpt2", "gpt_oss", "gemma2", "bloom", "mpt", "t5"])
@pytest.mark.parametrize("kernel", ["eager", None])
def test_a_call_run_again_on_its_own_values_gives_its_own_stages(
    name: str, kernel: str | None
) -> None:
    built = build(name, attn_implementation=kernel)
    with attnscope.record(built.model, keep="all") as trace:
        built.model(**built.inputs)
    for call in trace:
        q, k, v = call.q, call.k, call.v
        context = call.evidence.rerun("context", q, k, v)
        seen = call.context().isfinite()
        assert torch.allclose(context[seen], call.context().double()[seen], atol=1e-5)
        raw = call.evidence.rerun("raw_scores", q, k, v)
        met = list(call.recipe.kv_head_of(call.heads, call.kv_heads))
        assert torch.allclose(raw, q.double() @ k.double()[:, met].mT, atol=1e-5)
        moved = call.evidence.rerun("context", q, k, 2 * v)
        assert torch.allclose(moved[seen], 2 * context[seen])


def test_values_come_as_they_were_made_where_that_is_asked() -> None:
    def run(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 2
        part = y[0]
        y.add_(1)
        return part, y

    x = torch.randn(3, 4)
    tape, _ = taped(run, x)
    first = tape.operations[0].defines[0]
    end = tape.operations[-1].defines[0]
    plain = tape.run([first, end], wide=True)
    made = tape.run([first, end], wide=True, as_made={first})
    torch.testing.assert_close(plain[first], plain[end])
    torch.testing.assert_close(made[first], x.double() * 2)
    torch.testing.assert_close(made[end], x.double() * 2 + 1)
