"""Paraphrase scorer: a T5 encoder run once, its decoder run on every candidate."""

import torch
from torch import nn
from transformers import T5Config, T5ForConditionalGeneration


class Paraphraser(nn.Module):
    def __init__(self):
        super().__init__()
        self.t5 = T5ForConditionalGeneration(T5Config(
            vocab_size=90, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4,
            relative_attention_num_buckets=8, decoder_start_token_id=0,
        ))

    def forward(self, source, source_mask, candidate):
        encoded = self.t5.encoder(input_ids=source, attention_mask=source_mask)
        out = self.t5(encoder_outputs=encoded, decoder_input_ids=candidate, use_cache=False)  # fault: AS202
        return out.logits


with torch.random.fork_rng():
    torch.manual_seed(41)
    model = Paraphraser().eval()
    source = torch.randint(2, 90, (3, 13))
    candidate = torch.randint(2, 90, (3, 8))
source_mask = (torch.arange(13)[None] < torch.tensor([[13], [6], [9]])).long()
inputs = {"source": source, "source_mask": source_mask, "candidate": candidate}
expect = {"padding": "source_mask keep"}
