"""Calls a tiny GPT-2 of transformers on left-padded prompts, with mask and position ids."""

import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel


class NextToken(nn.Module):
    def __init__(self):
        super().__init__()
        config = GPT2Config(
            vocab_size=101, n_positions=40, n_embd=48, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0
        )
        self.lm = GPT2LMHeadModel(config)

    def forward(self, input_ids, attention_mask):
        position_ids = (attention_mask.cumsum(dim=-1) - 1).clamp(min=0)
        out = self.lm(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, use_cache=False
        )
        return out.logits[:, -1]


with torch.random.fork_rng():
    torch.manual_seed(113)
    model = NextToken().eval()

inputs = {
    "input_ids": torch.randint(1, 101, (3, 11), generator=torch.Generator().manual_seed(114)),
    "attention_mask": (torch.arange(11)[None] >= torch.tensor([0, 2, 6])[:, None]).long(),
}
expect = {"padding": "attention_mask keep"}
