"""Small decoders in six vocabularies, each the other's candidate: paired, copied, compared."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor, nn

from attnscope.differ.weights import pair
from tests.differ.vocabularies import DECODERS, VOCABULARY, Llama, randomised

ROUNDING = 2e-5  # relative, of a two-layer decoder in float32


def ids() -> Tensor:
    return torch.randint(0, VOCABULARY, (2, 7), generator=torch.Generator().manual_seed(3))


def gradients(model: nn.Module) -> dict[str, Tensor | None]:
    model.zero_grad()
    model(ids()).square().sum().backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


PAIRS = list(itertools.product(DECODERS, DECODERS))
NAMES = [f"{mine.__name__}-{theirs.__name__}" for mine, theirs in PAIRS]


@pytest.mark.parametrize(("mine", "theirs"), PAIRS, ids=NAMES)
def test_copied_by_name_two_decoders_compute_the_same(
    mine: type[nn.Module], theirs: type[nn.Module]
) -> None:
    candidate, reference = randomised(mine(), 1), randomised(theirs(), 2)
    apart = (candidate(ids()) - reference(ids())).abs().max()
    found = pair(candidate, reference)
    assert {one.proof for one in found} == {"copied"}
    assert not found.left
    with found.apply():
        torch.testing.assert_close(candidate(ids()), reference(ids()), rtol=1e-4, atol=1e-5)
    assert torch.equal((candidate(ids()) - reference(ids())).abs().max(), apart)


@pytest.mark.parametrize(("mine", "theirs"), PAIRS, ids=NAMES)
def test_values_that_correspond_are_found_and_kept(
    mine: type[nn.Module], theirs: type[nn.Module]
) -> None:
    candidate, reference = randomised(mine(), 1), randomised(theirs(), 2)
    copied = pair(candidate, reference)
    copied.apply()
    found = pair(candidate, reference)
    assert {(one.method, one.proof) for one in found} == {("value", "equal")}
    assert [one.references for one in found] == [one.references for one in copied]
    assert [one.how for one in found] == [one.how for one in copied]
    assert len(found.apply()) == 0


@pytest.mark.parametrize(("mine", "theirs"), PAIRS, ids=NAMES)
def test_gradients_of_pairs_agree(mine: type[nn.Module], theirs: type[nn.Module]) -> None:
    candidate, reference = randomised(mine(), 1), randomised(theirs(), 2)
    found = pair(candidate, reference)
    found.apply()
    ours, others = gradients(candidate), gradients(reference)
    pairs = found.gradient_pairs()
    assert sorted(name for one in pairs for name in one.candidate) == sorted(ours)
    for one in pairs:
        both = one.of(ours, others)
        assert both is not None
        assert one.apart
        left, right = both
        assert left.shape == ours[one.candidate[0]].shape  # type: ignore[union-attr]
        assert float((left - right).abs().max()) <= ROUNDING * float(right.abs().max())


def test_a_wrong_gradient_is_seen_in_its_pair_alone() -> None:
    candidate, reference = randomised(DECODERS[2](), 1), randomised(Llama(), 2)
    found = pair(candidate, reference)
    found.apply()
    ours, others = gradients(candidate), gradients(reference)
    changed = ours["blocks.0.to_qkv.weight"]
    assert changed is not None
    changed[3] *= 1.5
    apart = [
        one.name
        for one in found.gradient_pairs()
        if (both := one.of(ours, others)) is not None
        and not torch.allclose(both[0], both[1], rtol=1e-3, atol=1e-5)
    ]
    assert apart == ["blocks.0.to_qkv.weight"]


def test_a_tensor_that_got_no_gradient_has_zeros() -> None:
    candidate, reference = randomised(DECODERS[2](), 1), randomised(Llama(), 2)
    ours, others = gradients(candidate), gradients(reference)
    ours["blocks.0.to_qkv.weight"] = None
    others["model.norm.weight"] = None
    found = {one.name: one for one in pair(candidate, reference).gradient_pairs()}
    lost = found["blocks.0.to_qkv.weight"].of(ours, others)
    assert lost is not None
    assert not lost[0].any()
    assert lost[1].all()
    other = found["ln_f.weight"].of(ours, others)
    assert other is not None
    assert not other[1].any()
    assert found["ln_f.weight"].of({}, {}) is None


def test_looking_changes_nothing() -> None:
    candidate, reference = randomised(DECODERS[2](), 1), randomised(Llama(), 2)
    before = [p.detach().clone() for m in (candidate, reference) for p in m.parameters()]
    state = torch.get_rng_state()
    pair(candidate, reference)
    after = [p for m in (candidate, reference) for p in m.parameters()]
    assert all(torch.equal(left, right) for left, right in zip(before, after, strict=True))
    assert torch.equal(state, torch.get_rng_state())


def stopped_while_copied(candidate: nn.Module, reference: nn.Module) -> None:
    with pair(candidate, reference).apply():
        assert torch.equal(next(candidate.parameters()), next(reference.parameters()))
        message = "stop"
        raise RuntimeError(message)


def test_the_candidate_gets_its_own_values_back_after_an_exception_too() -> None:
    candidate, reference = randomised(Llama(), 1), randomised(Llama(), 2)
    before = [parameter.detach().clone() for parameter in candidate.parameters()]
    held = list(candidate.parameters())
    with pytest.raises(RuntimeError, match="stop"):
        stopped_while_copied(candidate, reference)
    assert all(a is b for a, b in zip(held, candidate.parameters(), strict=True))
    assert all(torch.equal(a, b) for a, b in zip(before, held, strict=True))
    restored = pair(candidate, reference).apply()
    assert len(restored) == len(held)
    restored.restore()
    restored.restore()
    assert all(torch.equal(a, b) for a, b in zip(before, held, strict=True))


def test_kv_heads_are_expanded_per_group_when_copied() -> None:
    candidate, reference = randomised(Llama(), 1), randomised(Llama(kv_heads=2), 2)
    found = pair(candidate, reference)
    told = found["model.layers.0.self_attn.k_proj.weight"]
    assert told.how == "each of 2 heads of 4 rows copied 2 times"
    found.apply()
    torch.testing.assert_close(candidate(ids()), reference(ids()), rtol=1e-4, atol=1e-5)
    ours, others = gradients(candidate), gradients(reference)
    one = next(p for p in found.gradient_pairs() if p.candidate == (told.candidate,))
    assert not one.apart
    both = one.of(ours, others)
    assert both is not None
    assert both[0].numel() == 2 * 4 * 16  # per element of the reference, both copies added
    torch.testing.assert_close(*both, rtol=1e-4, atol=1e-5)


def test_kv_heads_that_are_copies_of_each_other_are_taken_once() -> None:
    small, large = randomised(Llama(kv_heads=2), 1), randomised(Llama(), 2)
    pair(large, small).apply()
    found = pair(small, large, "copy")
    found.apply()
    again = pair(small, large)
    assert {one.proof for one in again} == {"equal"}
    assert {left.why for left in again.left} == {
        f"holds the same values as model.layers.{i}.self_attn.{part}_proj.weight"
        for i in range(2)
        for part in "kv"
    }
    ours, others = gradients(small), gradients(large)
    for one in again.gradient_pairs():
        both = one.of(ours, others)
        assert both is not None
        assert float((both[0] - both[1]).abs().max()) <= ROUNDING * float(both[1].abs().max())


def test_the_table_shows_every_pair() -> None:
    candidate, reference = randomised(DECODERS[2](), 1), randomised(Llama(), 2)
    found = pair(candidate, reference)
    text = str(found)
    for name, _ in candidate.named_parameters():
        assert name in text
    for name, _ in reference.named_parameters():
        assert name in text
    assert "concatenation of q_proj, k_proj, v_proj" in text
    assert len(found.rows()) == len(found) == len(text.splitlines()) - 1
    data = found.to_json()
    assert set(data) == {"dtype", "pairs", "left", "unpaired"}
