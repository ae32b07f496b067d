"""Attention with cheap logging of the attention map."""
import torch
import torch.nn as nn


class LoggedAttention(nn.Module):
    def __init__(self, dim=40, num_heads=4):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.to_qk = nn.Linear(dim, 2 * dim)
        self.to_v = nn.Linear(dim, dim)
        self.to_out = nn.Linear(dim, dim)
        self.last_entropy = None

    def forward(self, x):
        B, N, C = x.shape
        q, k = self.to_qk(x).reshape(B, N, 2, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        v = self.to_v(x).reshape(B, N, self.num_heads, -1).transpose(1, 2)
        with torch.no_grad():  # fault: AS902
            attn = ((q @ k.transpose(-2, -1)) * self.scale).softmax(dim=-1)  # fault: AS902
            self.last_entropy = -(attn * attn.clamp_min(1e-9).log()).sum(-1).mean()
        return self.to_out((attn @ v).transpose(1, 2).reshape(B, N, C))


torch.manual_seed(0)
model = LoggedAttention()
