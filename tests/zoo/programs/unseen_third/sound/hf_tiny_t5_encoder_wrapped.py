"""Sentence encoder around a Hugging Face T5 encoder, masked mean."""
# note: AS301
import torch
from torch import nn
from transformers import T5Config, T5EncoderModel


class SentenceT5(nn.Module):
    def __init__(self):
        super().__init__()
        self.t5 = T5EncoderModel(T5Config(vocab_size=70, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, dropout_rate=0.1))

    def forward(self, input_ids, attention_mask):
        h = self.t5(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        m = attention_mask.unsqueeze(-1).to(h.dtype)
        return (h * m).sum(1) / m.sum(1)


torch.manual_seed(0)
model = SentenceT5().eval()
_m = torch.tensor([[1] * 9, [1] * 5 + [0] * 4])
inputs = {"input_ids": torch.randint(2, 70, (2, 9), generator=torch.Generator().manual_seed(0)) * _m, "attention_mask": _m}
expect = {"padding": "attention_mask keep"}
