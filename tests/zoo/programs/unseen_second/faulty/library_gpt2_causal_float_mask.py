"""Scores candidate continuations in one left-padded batch with a GPT-2."""

import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel


class Ranker(nn.Module):
    def __init__(self, lm):
        super().__init__()
        self.lm = lm

    def forward(self, input_ids, attention_mask):
        additive = (1.0 - attention_mask[:, None, None, :]) * -10.0  # fault: AS207|AS201|AS202
        position_ids = (attention_mask.cumsum(-1) - 1).clamp(min=0)
        return self.lm(input_ids, attention_mask=additive, position_ids=position_ids).logits  # fault: AS207|AS201|AS202


def model():
    with torch.random.fork_rng():
        torch.manual_seed(31)
        config = GPT2Config(vocab_size=95, n_positions=40, n_embd=30, n_layer=2, n_head=5, initializer_range=0.15)
        return Ranker(GPT2LMHeadModel(config)).eval()


attention_mask = (torch.arange(12) >= torch.tensor([0, 5, 2])[:, None]).long()
input_ids = torch.randint(1, 95, (3, 12), generator=torch.Generator().manual_seed(5)) * attention_mask
inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
expect = {"causal": True, "padding": "attention_mask keep"}
# also: AS201 AS202 AS207
