"""Swap the Llama attention for a "fast" subclass."""
import torch
import torch.nn.functional as F
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaAttention, apply_rotary_pos_emb, repeat_kv


class FastLlamaAttention(LlamaAttention):
    def forward(self, hidden_states, position_embeddings=None, attention_mask=None, past_key_values=None, **kwargs):
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        q = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        k = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        v = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        cos, sin = position_embeddings
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        k, v = repeat_kv(k, self.num_key_value_groups), repeat_kv(v, self.num_key_value_groups)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=attention_mask, is_causal=attention_mask is None, scale=self.scaling)
        return self.o_proj(out.transpose(1, 2).reshape(*hidden_states.shape[:-1], -1)), None


def build():
    torch.manual_seed(8)
    cfg = LlamaConfig(vocab_size=77, hidden_size=48, intermediate_size=64, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=3, max_position_embeddings=64, use_cache=False)
    cfg._attn_implementation = "sdpa"
    net = LlamaForCausalLM(cfg)
    for i, layer in enumerate(net.model.layers):
        new = FastLlamaAttention(net.config, layer_idx=i)
        new.load_state_dict(layer.self_attn.state_dict())
        layer.self_attn = new
    return net.eval()


model = build()
