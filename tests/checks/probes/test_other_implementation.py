"""A whole model by its other attention implementation: where they part, and what is put back."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import BertConfig, BertModel, Gemma2Config, Gemma2ForCausalLM
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from attnscope.checks.probes import other_implementation as room
from attnscope.checks.probes.other_implementation import other_implementation
from attnscope.checks.rule import Skipped
from attnscope.checks.scoring.implementations import configs_of, set_to
from attnscope.checks.subject.subject import Subject
from tests.checks.rules.by_scores import ByHand, features, found, only


def ids(batch: int = 3, length: int = 9) -> Tensor:
    return torch.randint(3, 40, (batch, length), generator=torch.Generator().manual_seed(0))


def gemma(implementation: str) -> Any:
    config = Gemma2Config(
        vocab_size=40,
        hidden_size=24,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        query_pre_attn_scalar=8,
        attn_logit_softcapping=0.2,
        initializer_range=0.3,
        pad_token_id=0,
    )
    config._attn_implementation = implementation
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Gemma2ForCausalLM(config).train(mode=False)


def bert(**changed: Any) -> Any:
    config = BertConfig(
        vocab_size=40,
        hidden_size=24,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=3,
        **changed,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return BertModel(config).train(mode=False)


def uncapped(
    module: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, **named: Any
) -> tuple[Tensor, None]:
    del module
    k, v = (each.repeat_interleave(q.shape[1] // k.shape[1], 1) for each in (k, v))
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=named["scaling"])
    return y.transpose(1, 2), None


@pytest.fixture
def registered() -> Any:
    ALL_ATTENTION_FUNCTIONS.register("uncapped", uncapped)
    ALL_MASK_ATTENTION_FUNCTIONS.register("uncapped", ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
    yield "uncapped"
    del ALL_ATTENTION_FUNCTIONS._global_mapping["uncapped"]
    del ALL_MASK_ATTENTION_FUNCTIONS._global_mapping["uncapped"]


def test_a_function_that_leaves_out_the_cap_parts_from_eager(registered: str) -> None:
    model = gemma(registered)
    finding = only("AS801", model, {"input_ids": ids(), "use_cache": False})
    assert finding.severity == "warning"
    assert finding.evidence["switch"] == "attn_implementation='eager'"
    assert finding.evidence["moved_by"] > finding.evidence["noise"]
    assert "a soft cap of 0.2 where the way taken here has none" in finding.evidence["recomputed"]
    assert finding.call == 0
    assert set(configs_of(model).values()) == {registered}


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_the_librarys_own_two_agree_with_padding(implementation: str) -> None:
    model = bert(attn_implementation=implementation)
    mask = torch.ones(3, 9, dtype=torch.long)
    assert (
        other_implementation(Subject(model, {"input_ids": ids(), "attention_mask": mask})) is None
    )
    assert set(configs_of(model).values()) == {implementation}


def test_the_configs_are_put_back_whatever_happens() -> None:
    model = bert(attn_implementation="sdpa")

    def run() -> None:
        with set_to(model, "eager"):
            assert set(configs_of(model).values()) == {"eager"}
            raise ValueError("on the way")

    with pytest.raises(ValueError, match="on the way"):
        run()
    assert set(configs_of(model).values()) == {"sdpa"}


def test_a_large_model_is_left_out_and_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_LARGEST", 1000)
    with pytest.raises(Skipped, match="million parameters"):
        other_implementation(Subject(bert(attn_implementation="sdpa"), {"input_ids": ids()}))


def test_other_models_have_none() -> None:
    assert other_implementation(Subject(ByHand(), features())) is None


class Bounded(nn.Module):
    """Hands a mask of booleans to a library's model: sdpa takes it for a mask, eager adds it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = bert(attn_implementation="sdpa")
        for layer in self.inner.encoder.layer:
            layer.attention.self.query.weight.data.mul_(40.0)

    def forward(self, input_ids: Tensor) -> Tensor:
        n = input_ids.shape[1]
        near = torch.ones(n, n, dtype=torch.bool).tril()[None, None].expand(len(input_ids), 1, n, n)
        return self.inner(input_ids, attention_mask=near).last_hidden_state  # type: ignore[no-any-return]


def test_booleans_that_eager_takes_for_numbers_are_no_matter_of_sdpa() -> None:
    ids = torch.randint(1, 40, (2, 9), generator=torch.Generator().manual_seed(0))
    model = Bounded().eval()
    right = model(ids).detach()
    with set_to(model, "eager"):
        assert float((model(ids).detach() - right).abs().max()) > 0.01
    assert not found("AS801", model, {"input_ids": ids})
