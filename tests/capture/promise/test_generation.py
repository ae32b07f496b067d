"""Generation with a cache: the same tokens, and each decoding step counted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    T5Config,
    T5ForConditionalGeneration,
)

from tests.capture.promise.runs import undisturbed

LENGTH, NEW, LAYERS = 4, 5, 2


def llama(attention: str) -> PreTrainedModel:
    config = LlamaConfig(  # type: ignore[call-arg]
        vocab_size=31, hidden_size=16, intermediate_size=24, num_hidden_layers=LAYERS,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=32,
        pad_token_id=0, bos_token_id=1, eos_token_id=None, attn_implementation=attention,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()  # type: ignore[no-any-return,no-untyped-call]


def gpt2(attention: str) -> PreTrainedModel:
    config = GPT2Config(  # type: ignore[call-arg]
        vocab_size=31, n_embd=16, n_layer=LAYERS, n_head=4, n_positions=32,
        pad_token_id=0, bos_token_id=1, eos_token_id=None, attn_implementation=attention,
    )  # fmt: skip
    return GPT2LMHeadModel(config).eval()  # type: ignore[no-any-return,no-untyped-call]


def t5(attention: str) -> PreTrainedModel:
    config = T5Config(  # type: ignore[call-arg]
        vocab_size=31, d_model=16, d_kv=4, d_ff=24, num_layers=1, num_heads=4,
        pad_token_id=0, eos_token_id=None, decoder_start_token_id=0, attn_implementation=attention,
    )  # fmt: skip
    return T5ForConditionalGeneration(config).eval()  # type: ignore[no-any-return,no-untyped-call]


def bert(attention: str) -> PreTrainedModel:
    config = BertConfig(  # type: ignore[call-arg]
        vocab_size=31, hidden_size=16, num_hidden_layers=LAYERS, num_attention_heads=4,
        intermediate_size=24, max_position_embeddings=32, attn_implementation=attention,
    )  # fmt: skip
    return BertModel(config)


def prompt() -> dict[str, Any]:
    ids = torch.randint(2, 31, (2, LENGTH))
    mask = torch.ones_like(ids)
    mask[0, 0] = 0
    return {"input_ids": ids, "attention_mask": mask}


def generate(model: Any, **how: Any) -> Any:
    return model.generate(**prompt(), max_new_tokens=NEW, min_new_tokens=NEW, **how)


every_way = pytest.mark.parametrize("attention", ["eager", "sdpa"])


@every_way
@pytest.mark.parametrize("build", [llama, gpt2], ids=["llama", "gpt2"])
def test_sampling(build: Callable[[str], PreTrainedModel], attention: str) -> None:
    trace = undisturbed(partial(build, attention), partial(generate, do_sample=True, top_k=20))
    assert [call.step for call in trace] == [n for n in range(NEW) for _ in range(LAYERS)]
    assert [call.keys for call in trace.calls[::LAYERS]] == [LENGTH + n for n in range(NEW)]
    assert [call.queries for call in trace.calls[::LAYERS]] == [LENGTH] + [1] * (NEW - 1)
    assert all(call.replay_error is not None and call.replay_error < 1e-5 for call in trace)


@every_way
def test_static_cache(attention: str) -> None:
    run = partial(generate, cache_implementation="static", disable_compile=True)
    trace = undisturbed(partial(llama, attention), run)
    assert [call.step for call in trace] == [n for n in range(NEW) for _ in range(LAYERS)]
    first = trace[0].k
    for call in trace.calls[::LAYERS]:
        assert torch.equal(call.k[:, :, :LENGTH], first[:, :, :LENGTH])
        if call.step < NEW - 1:
            assert not call.k[:, :, LENGTH + call.step :].any()
    assert all(call.replay_error is not None and call.replay_error < 1e-5 for call in trace)


@every_way
def test_beams(attention: str) -> None:
    trace = undisturbed(partial(llama, attention), partial(generate, num_beams=3))
    assert {call.batch for call in trace} == {6}


@every_way
def test_without_a_cache(attention: str) -> None:
    trace = undisturbed(partial(llama, attention), partial(generate, use_cache=False))
    assert [call.queries for call in trace.calls[::LAYERS]] == [LENGTH + n for n in range(NEW)]


@every_way
def test_encoder_decoder(attention: str) -> None:
    trace = undisturbed(partial(t5, attention), partial(generate, do_sample=True))
    assert len(trace) == 1 + 2 * NEW


@every_way
def test_training_with_dropout(attention: str) -> None:
    def run(model: nn.Module) -> Any:
        out = model(**prompt())
        out.last_hidden_state.square().sum().backward()
        return out

    trace = undisturbed(partial(bert, attention), run)
    assert len(trace) == LAYERS
    if attention == "eager":
        assert [call.replay_error for call in trace] == [0.0] * LAYERS
    assert torch.isfinite(trace[0].grad("context")).all()


@every_way
@pytest.mark.parametrize("reentrant", [True, False])
def test_gradient_checkpointing(attention: str, reentrant: bool) -> None:  # noqa: FBT001
    def run(model: Any) -> Any:
        model.gradient_checkpointing_enable({"use_reentrant": reentrant})
        out = model.train()(**prompt(), labels=torch.ones(2, LENGTH, dtype=torch.int64))
        out.loss.backward()
        return out.loss.detach()

    trace = undisturbed(partial(llama, attention), run)
    assert [call.recomputed for call in trace] == [False] * LAYERS + [True] * LAYERS
