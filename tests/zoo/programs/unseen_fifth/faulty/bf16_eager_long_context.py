"""Long-context eager attention used when output_attentions is requested, model in bfloat16."""
import torch
import torch.nn as nn


def eager_attention_forward(module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs):
    attn_weights = torch.matmul(query, key.transpose(2, 3)) * scaling
    if attention_mask is not None:
        attn_weights = attn_weights + attention_mask[:, :, :, : key.shape[-2]]
    attn_weights = nn.functional.softmax(attn_weights, dim=-1)  # fault: AS304
    attn_weights = nn.functional.dropout(attn_weights, p=dropout, training=module.training)
    attn_output = torch.matmul(attn_weights, value)
    return attn_output.transpose(1, 2).contiguous(), attn_weights


class LongAttention(nn.Module):
    def __init__(self, hidden_size=32, heads=2):
        super().__init__()
        self.heads, self.head_dim = heads, hidden_size // heads
        self.scaling = self.head_dim ** -0.5
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(hidden_size, hidden_size, bias=False) for _ in range(4))
        for p in (self.q_proj, self.k_proj):
            nn.init.normal_(p.weight, std=0.3)

    def forward(self, hidden_states):
        b, n, _ = hidden_states.shape
        shape = (b, n, self.heads, self.head_dim)
        q, k, v = (p(hidden_states).view(shape).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        mask = torch.full((n, n), torch.finfo(q.dtype).min, dtype=q.dtype, device=q.device).triu(1)[None, None]
        out, w = eager_attention_forward(self, q, k, v, mask, self.scaling)
        return self.o_proj(out.reshape(b, n, -1)), w


with torch.random.fork_rng():
    torch.manual_seed(7)
    model = LongAttention().to(torch.bfloat16).eval()
inputs = (torch.randn(1, 768, 32, generator=torch.Generator().manual_seed(7)).bfloat16(),)
