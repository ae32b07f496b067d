"""Small T5 with padded source, as called in training."""
import torch
from transformers import T5Config, T5ForConditionalGeneration

torch.manual_seed(91)
model = T5ForConditionalGeneration(T5Config(vocab_size=60, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=3, decoder_start_token_id=0)).eval()
source = torch.randint(1, 60, (2, 13))
keep = torch.ones_like(source)
keep[1, 9:] = 0
inputs = {"input_ids": source * keep, "attention_mask": keep, "decoder_input_ids": torch.randint(1, 60, (2, 6)), "use_cache": False}
expect = {"causal": True, "padding": "attention_mask keep"}
