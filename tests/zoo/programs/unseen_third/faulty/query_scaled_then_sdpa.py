"""Whisper-like decoder layer moved from manual math to SDPA."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class WhisperishAttention(nn.Module):
    def __init__(self, embed_dim=48, num_heads=3, is_causal=False):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, embed_dim // num_heads
        self.scaling = self.head_dim**-0.5
        self.is_causal = is_causal
        self.k_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.v_proj, self.q_proj, self.out_proj = nn.Linear(embed_dim, embed_dim), nn.Linear(embed_dim, embed_dim), nn.Linear(embed_dim, embed_dim)

    def _shape(self, t, n, bsz):
        return t.view(bsz, n, self.num_heads, self.head_dim).transpose(1, 2).contiguous()

    def forward(self, hidden_states, key_value_states=None):
        bsz, tgt_len, _ = hidden_states.size()
        kv = hidden_states if key_value_states is None else key_value_states
        query_states = self._shape(self.q_proj(hidden_states) * self.scaling, tgt_len, bsz)
        key_states = self._shape(self.k_proj(kv), -1, bsz)
        value_states = self._shape(self.v_proj(kv), -1, bsz)
        attn = F.scaled_dot_product_attention(query_states, key_states, value_states, is_causal=self.is_causal)  # fault: AS301
        return self.out_proj(attn.transpose(1, 2).reshape(bsz, tgt_len, -1))


torch.manual_seed(0)
model = WhisperishAttention(is_causal=True).eval()
inputs = torch.randn(2, 10, 48, generator=torch.Generator().manual_seed(9))
