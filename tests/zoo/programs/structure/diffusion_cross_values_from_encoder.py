"""Diffusion block: to_k and to_v are both given encoder_hidden_states."""

import torch
import torch.nn.functional as F
from torch import nn


class CrossAttnProcessor:
    def __call__(self, attn, hidden_states, encoder_hidden_states=None):
        if encoder_hidden_states is None:
            encoder_hidden_states = hidden_states
        batch, length, _ = hidden_states.shape
        query = attn.to_q(hidden_states)
        key = attn.to_k(encoder_hidden_states)
        value = attn.to_v(encoder_hidden_states)
        query, key, value = (
            t.view(batch, -1, attn.heads, attn.dim_head).transpose(1, 2)
            for t in (query, key, value)
        )
        hidden_states = F.scaled_dot_product_attention(query, key, value)
        hidden_states = hidden_states.transpose(1, 2).reshape(batch, length, -1)
        return attn.to_out(hidden_states)


class Attention(nn.Module):
    def __init__(self, query_dim=40, heads=5, dim_head=8):
        super().__init__()
        self.heads, self.dim_head = heads, dim_head
        self.to_q = nn.Linear(query_dim, heads * dim_head, bias=False)
        self.to_k = nn.Linear(query_dim, heads * dim_head, bias=False)
        self.to_v = nn.Linear(query_dim, heads * dim_head, bias=False)
        self.to_out = nn.Linear(heads * dim_head, query_dim)
        self.processor = CrossAttnProcessor()

    def forward(self, hidden_states, encoder_hidden_states=None):
        return self.processor(self, hidden_states, encoder_hidden_states)


class Block(nn.Module):
    def __init__(self, dim=40):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.attn2 = Attention(dim)

    def forward(self, hidden_states, encoder_hidden_states):
        return hidden_states + self.attn2(self.norm(hidden_states), encoder_hidden_states)


model = Block().eval()
inputs = {
    "hidden_states": torch.randn(2, 12, 40),
    "encoder_hidden_states": torch.randn(2, 12, 40),
}
