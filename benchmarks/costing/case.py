"""The models that are run, and what they are given."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnscope.targets import samples

_FIRST_WORD, _LAST_WORD, _SEED = 1_000, 20_000, 0


@dataclass(frozen=True, slots=True)
class Case:
    """One model and the size of its inputs.

    layers, attention: path of the layers, and in a layer of the module that makes the weights.
    rounds, quick: how often each variant is timed.
    """

    name: str
    sample: str
    batch: int
    length: int
    layers: str
    attention: str
    rounds: int
    quick: int = 3

    def inputs(self) -> dict[str, Tensor]:
        """Return token ids (batch, length), always the same ones, and a mask that drops none."""
        seeded = torch.Generator().manual_seed(_SEED)
        shape = (self.batch, self.length)
        ids = torch.randint(_FIRST_WORD, _LAST_WORD, shape, generator=seeded)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


CASES = (
    Case("MiniLM", "minilm", 8, 128, "encoder.layer", "attention.self", rounds=9),
    Case("SmolLM2", "smollm2", 1, 512, "model.layers", "self_attn", rounds=5),
)


class Setting:
    """A case in one process: its inputs, and its model in as many copies as are asked for."""

    def __init__(self, case: Case) -> None:
        """Make the inputs; models are loaded when they are asked for."""
        self.case = case
        self.inputs: Mapping[str, Tensor] = case.inputs()
        self._shared: dict[str, nn.Module] = {}

    def model(self, attention: str) -> nn.Module:
        """Return the model with this attention ("sdpa", "eager"), the same object each time."""
        if attention not in self._shared:
            self._shared[attention] = self.new_model(attention)[0]
        return self._shared[attention]

    def new_model(self, attention: str) -> tuple[nn.Module, Any]:
        """Return a copy of the model of its own, in eval mode and float32, and the tokenizer."""
        return samples.load(self.case.sample, attention, lambda text: print(text, file=sys.stderr))
