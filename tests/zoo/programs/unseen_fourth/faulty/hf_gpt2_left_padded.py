"""Scoring left padded prompts with a small GPT-2."""
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.lm = GPT2LMHeadModel(GPT2Config(vocab_size=80, n_embd=32, n_layer=2, n_head=4, n_positions=48, bos_token_id=1, eos_token_id=2))

    def forward(self, input_ids, attention_mask):
        pos = torch.arange(input_ids.shape[1])[None].expand_as(input_ids)  # fault: AS504
        out = self.lm(input_ids=input_ids, attention_mask=attention_mask, position_ids=pos)  # fault: AS504
        return out.logits[:, -1].log_softmax(-1)


def model():
    torch.manual_seed(1)
    return Scorer().eval()


_m = torch.tensor([[0] * 4 + [1] * 6, [1] * 10])
inputs = {"input_ids": torch.randint(3, 80, (2, 10), generator=torch.Generator().manual_seed(1)) * _m, "attention_mask": _m}
expect = {"padding": "attention_mask keep", "causal": True}
