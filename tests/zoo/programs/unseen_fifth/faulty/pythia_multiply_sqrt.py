"""NeoX-like attention with interleaved QKV and baddbmm scores."""
# also: AS302 AS901
import torch
import torch.nn as nn


class NeoXAttention(nn.Module):
    def __init__(self, hidden_size=96, num_attention_heads=6):
        super().__init__()
        self.n = num_attention_heads
        self.hs = hidden_size // num_attention_heads
        self.norm_factor = self.hs ** 0.5
        self.query_key_value = nn.Linear(hidden_size, 3 * hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)
        nn.init.normal_(self.query_key_value.weight, std=0.08)

    def forward(self, hidden_states):
        B, T, _ = hidden_states.shape
        qkv = self.query_key_value(hidden_states).view(B, T, self.n, 3 * self.hs).permute(0, 2, 1, 3)
        q, k, v = qkv.split(self.hs, dim=-1)
        q = q.reshape(B * self.n, T, self.hs)
        k = k.reshape(B * self.n, T, self.hs)
        buf = torch.zeros(B * self.n, T, T, dtype=q.dtype, device=k.device)
        scores = torch.baddbmm(buf, q, k.transpose(1, 2), beta=1.0, alpha=self.norm_factor)  # fault: AS301
        scores = scores.view(B, self.n, T, T)
        future = torch.ones(T, T, dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(future, torch.finfo(scores.dtype).min)
        out = scores.softmax(dim=-1) @ v
        return self.dense(out.permute(0, 2, 1, 3).reshape(B, T, -1))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(19)
        return NeoXAttention().eval()


inputs = torch.randn(2, 16, 96, generator=torch.Generator().manual_seed(19))
