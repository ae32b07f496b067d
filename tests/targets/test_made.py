"""Inputs made for modules whose author gave none: they run, and their sizes all differ."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnscope.errors import TargetError
from attnscope.targets.made import make_inputs


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.W_query = nn.Linear(12, 8)
        self.W_key = nn.Linear(12, 8)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        made: Tensor = self.W_query(x) @ self.W_key(x).transpose(1, 2)
        return made if mask is None else made + mask


class Cross(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.to_q = nn.Linear(12, 8)
        self.to_kv = nn.Linear(20, 16)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        k, _ = self.to_kv(context).chunk(2, -1)
        made: Tensor = self.to_q(x) @ k.transpose(1, 2)
        return made


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(24)
        self.attention = nn.MultiheadAttention(24, 4, batch_first=True)

    def forward(self, hidden_states: Tensor) -> Tensor:
        h = self.norm(hidden_states)
        made: Tensor = self.attention(h, h, h)[0]
        return made


class Language(nn.Module):
    def __init__(self, block_size: int = 64) -> None:
        super().__init__()
        self.config = SimpleNamespace(block_size=block_size, n_embd=16)
        self.wpe = nn.Embedding(block_size, 16)
        self.wte = nn.Embedding(10, 16)

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> Tensor:  # noqa: ARG002
        made: Tensor = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
        return made


class Translator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.src_embedding = nn.Embedding(30, 16)
        self.tgt_embedding = nn.Embedding(20, 16)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        made: Tensor = self.src_embedding(src).sum() + self.tgt_embedding(tgt)
        return made


class Numbered(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.d_model = 12
        self.w_q = nn.Parameter(torch.ones(12, 12))

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q @ self.w_q) @ k.transpose(1, 2) @ v


MODULES: dict[str, Callable[[], nn.Module]] = {
    "own": Own,
    "cross": Cross,
    "block": Block,
    "language": Language,
    "short": lambda: Language(4),
    "translator": Translator,
    "numbered": Numbered,
    "half": lambda: Own().to(torch.bfloat16),
    "mha": lambda: nn.MultiheadAttention(16, 4),
    "mha-first": lambda: nn.MultiheadAttention(16, 4, batch_first=True),
    "mha-widths": lambda: nn.MultiheadAttention(16, 4, kdim=10, vdim=14),
    "encoder-layer": lambda: nn.TransformerEncoderLayer(16, 4, 32),
    "encoder": lambda: nn.TransformerEncoder(
        nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2
    ),
    "decoder-layer": lambda: nn.TransformerDecoderLayer(16, 4, 32),
    "decoder": lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 4, 32), 2),
    "transformer": lambda: nn.Transformer(16, 4, 1, 1, 32),
}


def called(model: nn.Module, inputs: Any) -> Any:
    return model(**inputs) if isinstance(inputs, dict) else model(*inputs)


@pytest.mark.parametrize("name", MODULES)
def test_the_inputs_run_and_leave_the_random_state(name: str) -> None:
    model = MODULES[name]()
    state = torch.get_rng_state()
    inputs = make_inputs(model)
    assert torch.equal(torch.get_rng_state(), state)
    called(model, inputs)
    again = make_inputs(model)
    assert isinstance(inputs, dict)
    assert isinstance(again, dict)
    assert all(torch.equal(inputs[key], again[key]) for key in inputs)
    for tensor in inputs.values():
        assert len(set(tensor.shape)) == tensor.ndim, f"two axes of one size: {tuple(tensor.shape)}"


@pytest.mark.parametrize(
    ("name", "argument", "batch_axis"),
    [
        ("mha", "query", 1),
        ("mha-first", "query", 0),
        ("encoder-layer", "src", 1),
        ("encoder", "src", 0),
        ("transformer", "tgt", 1),
        ("own", "x", 0),
    ],
)
def test_the_batch_stands_where_the_module_declares(
    name: str, argument: str, batch_axis: int
) -> None:
    inputs = make_inputs(MODULES[name]())
    assert isinstance(inputs, dict)
    assert inputs[argument].shape[batch_axis] == 2


def test_expect_tells_the_axes() -> None:
    inputs = make_inputs(Own(), {"batch_axis": 1})
    assert isinstance(inputs, dict)
    assert inputs["x"].shape == (7, 2, 12)


def test_the_other_width_and_length_are_those_of_the_memory() -> None:
    inputs = make_inputs(Cross())
    assert isinstance(inputs, dict)
    assert inputs["x"].shape == (2, 7, 12)
    assert inputs["context"].shape == (2, 5, 20)


def test_a_short_model_gets_short_inputs() -> None:
    inputs = make_inputs(Language(4))
    assert isinstance(inputs, dict)
    assert inputs["idx"].shape[1] <= 4
    assert inputs["idx"].max() < 10


class Bare(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return q @ k.mT @ v


class Frequencies(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.to_q = nn.Linear(8, 8)

    def forward(self, x: Tensor, freqs_cis: Tensor) -> Tensor:
        made: Tensor = self.to_q(x) * freqs_cis
        return made


class Anything(nn.Module):
    def forward(self, *args: Tensor) -> Tensor:
        return args[0]


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (Bare(), "the width of its forward's argument 'q' can't be told"),
        (Frequencies(), "argument 'freqs_cis' stands for"),
        (Anything(), "names no argument"),
    ],
    ids=["bare", "frequencies", "anything"],
)
def test_what_can_not_be_told_says_how_to_give_inputs(model: nn.Module, said: str) -> None:
    with pytest.raises(TargetError) as caught:
        make_inputs(model)
    assert said in str(caught.value)
    assert "--inputs file.py:name" in str(caught.value)
