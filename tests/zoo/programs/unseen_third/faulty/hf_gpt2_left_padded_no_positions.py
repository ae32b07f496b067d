"""Score prompts with GPT-2, left padded batch."""
import torch
from transformers import GPT2Config, GPT2LMHeadModel


class Scorer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lm = GPT2LMHeadModel(GPT2Config(vocab_size=90, n_positions=48, n_embd=40, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=1))

    def forward(self, input_ids, attention_mask):
        return self.lm(input_ids=input_ids, attention_mask=attention_mask).logits  # fault: AS504


torch.manual_seed(0)
model = Scorer().eval()
_m = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1, 1], [1] * 9, [0, 1, 1, 1, 1, 1, 1, 1, 1]])
inputs = {"input_ids": torch.randint(2, 90, (3, 9), generator=torch.Generator().manual_seed(1)) * _m, "attention_mask": _m}
expect = {"padding": "attention_mask keep"}
