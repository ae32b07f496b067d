"""Scores of prompts in a left-padded batch, from a small GPT-2."""
import torch
from transformers import GPT2Config, GPT2LMHeadModel


class PromptScorer(torch.nn.Module):
    def __init__(self, pad=7):
        super().__init__()
        self.pad = pad
        self.lm = GPT2LMHeadModel(GPT2Config(vocab_size=90, n_positions=32, n_embd=40, n_layer=2, n_head=5))

    def forward(self, ids):
        keep = (ids != self.pad).long()
        positions = (keep.cumsum(-1) - 1).clamp(min=0)
        return self.lm(ids, attention_mask=keep, position_ids=positions, use_cache=False).logits


torch.manual_seed(12)
model = PromptScorer().eval()
ids = torch.randint(8, 90, (3, 12))
ids[0, :5] = 7
ids[2, :2] = 7
inputs = {"ids": ids}
expect = {"causal": True, "padding": "ids pad=7"}
