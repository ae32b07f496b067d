"""Next-token scores for a batch of prompts with the library's GPT-2."""

import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel


class NextToken(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.lm = GPT2LMHeadModel(config)

    def forward(self, input_ids, attention_mask):
        places = (attention_mask.cumsum(-1) - 1).clamp(min=0)
        out = self.lm(input_ids, attention_mask=attention_mask, position_ids=places)
        return out.logits[:, -1]


def model():
    config = GPT2Config(
        vocab_size=100,
        n_positions=64,
        n_embd=40,
        n_layer=2,
        n_head=4,
        initializer_range=0.2,
        bos_token_id=0,
        eos_token_id=0,
    )
    with torch.random.fork_rng():
        torch.manual_seed(7)
        return NextToken(config).eval()


def inputs():
    ids = torch.randint(1, 100, (3, 12), generator=torch.Generator().manual_seed(7))
    mask = torch.ones_like(ids)
    mask[1, :6] = 0
    mask[2, :3] = 0
    return {"input_ids": ids, "attention_mask": mask}


expect = {"causal": True, "padding": "attention_mask keep"}
