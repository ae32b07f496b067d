"""Small Gemma-2 with the library's own eager attention."""
import torch
from transformers import Gemma2Config, Gemma2ForCausalLM


def model():
    with torch.random.fork_rng():
        torch.manual_seed(8)
        config = Gemma2Config(vocab_size=70, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
                              num_key_value_heads=1, head_dim=16, attn_logit_softcapping=3.0, sliding_window=5,
                              query_pre_attn_scalar=16, attn_implementation="eager")
        lm = Gemma2ForCausalLM(config).eval()
        for name, p in lm.named_parameters():
            if "q_proj" in name or "k_proj" in name:
                p.data.normal_(std=0.4)
        return lm


inputs = {"input_ids": torch.randint(1, 70, (2, 14), generator=torch.Generator().manual_seed(4)), "use_cache": False}
expect = {"causal": True, "window": [5, None]}
