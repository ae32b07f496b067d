"""Cached encoder states, several decodings with a tiny BART."""
import torch
from torch import nn
from transformers import BartConfig, BartModel


class TwoPass(nn.Module):
    def __init__(self):
        super().__init__()
        cfg = BartConfig(vocab_size=70, d_model=32, encoder_layers=1, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                         encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=40, use_cache=False)
        self.bart = BartModel(cfg)
        self.head = nn.Linear(32, 70)

    def forward(self, src, src_mask, tgt):
        enc = self.bart.encoder(input_ids=src, attention_mask=src_mask).last_hidden_state
        dec = self.bart.decoder(input_ids=tgt, encoder_hidden_states=enc, encoder_attention_mask=src_mask)
        return self.head(dec.last_hidden_state)


torch.manual_seed(0)
model = TwoPass().eval()
_g = torch.Generator().manual_seed(3)
_m = torch.tensor([[1] * 9, [1] * 4 + [0] * 5])
inputs = {"src": torch.randint(4, 70, (2, 9), generator=_g) * _m + (1 - _m), "src_mask": _m, "tgt": torch.randint(4, 70, (2, 6), generator=_g)}
expect = {"padding": "src_mask keep"}
