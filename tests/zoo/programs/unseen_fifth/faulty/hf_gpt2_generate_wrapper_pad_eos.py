"""Batch scorer around a tiny GPT-2, prompts are left-padded with the eos id."""
# also: AS504 AS208
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

EOS = 0


class PromptScorer(nn.Module):
    def __init__(self):
        super().__init__()
        conf = GPT2Config(vocab_size=120, n_embd=48, n_layer=2, n_head=4, n_positions=64, bos_token_id=EOS, eos_token_id=EOS)
        self.lm = GPT2LMHeadModel(conf)

    def forward(self, input_ids, attention_mask=None):
        out = self.lm(input_ids=input_ids, use_cache=False)  # fault: AS202
        return out.logits[:, -1].log_softmax(-1)


with torch.random.fork_rng():
    torch.manual_seed(202)
    model = PromptScorer().eval()
_am = torch.tensor([[0] * 4 + [1] * 7, [1] * 11, [0] * 2 + [1] * 9])
inputs = {"input_ids": torch.randint(1, 120, (3, 11), generator=torch.Generator().manual_seed(202)) * _am, "attention_mask": _am}
expect = {"padding": "attention_mask keep", "causal": True}
