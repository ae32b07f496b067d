"""Packed projection laid out head by head (q, k, v of head 0 first), as in the checkpoints of our lab."""
import torch
import torch.nn as nn


class HeadMajorAttention(nn.Module):
    def __init__(self, hidden=72, heads=6):
        super().__init__()
        self.heads, self.hn = heads, hidden // heads
        self.query_key_value = nn.Linear(hidden, 3 * hidden)
        self.dense = nn.Linear(hidden, hidden)
        self.norm_factor = self.hn ** 0.25

    def forward(self, hidden_states):
        b, s, h = hidden_states.shape
        mixed = self.query_key_value(hidden_states).view(b, s, self.heads, 3 * self.hn)
        q, k, v = mixed.split(self.hn, dim=-1)
        q = q.permute(0, 2, 1, 3).reshape(b * self.heads, s, self.hn) / self.norm_factor
        k = k.permute(0, 2, 3, 1).reshape(b * self.heads, self.hn, s) / self.norm_factor
        v = v.permute(0, 2, 1, 3).reshape(b * self.heads, s, self.hn)
        ctx = torch.bmm(torch.bmm(q, k).softmax(-1), v)
        ctx = ctx.view(b, self.heads, s, self.hn).permute(0, 2, 1, 3).contiguous().view(b, s, h)
        return self.dense(ctx)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(56)
        return HeadMajorAttention().eval()
