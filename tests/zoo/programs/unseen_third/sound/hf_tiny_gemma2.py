"""Hugging Face Gemma 2 from a small config, caps and windows as configured."""
import torch
from transformers import Gemma2Config, Gemma2ForCausalLM

torch.manual_seed(0)
cfg = Gemma2Config(
    vocab_size=90, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    head_dim=12, sliding_window=5, query_pre_attn_scalar=20, max_position_embeddings=64, attn_implementation="eager",
)
model = Gemma2ForCausalLM(cfg).eval()
inputs = {"input_ids": torch.randint(3, 90, (2, 12), generator=torch.Generator().manual_seed(0))}
