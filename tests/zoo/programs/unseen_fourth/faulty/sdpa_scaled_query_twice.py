"""Whisper-like encoder attention, query scaled in the projection."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class WhisperAttention(nn.Module):
    def __init__(self, embed_dim=64, num_heads=4):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, embed_dim // num_heads
        self.scaling = self.head_dim ** -0.5
        self.k_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def _shape(self, t):
        return t.view(t.size(0), -1, self.num_heads, self.head_dim).transpose(1, 2).contiguous()

    def forward(self, hidden_states):
        q = self._shape(self.q_proj(hidden_states) * self.scaling)
        k, v = self._shape(self.k_proj(hidden_states)), self._shape(self.v_proj(hidden_states))
        a = F.scaled_dot_product_attention(q, k, v)  # fault: AS301
        return self.out_proj(a.transpose(1, 2).flatten(2))


class MelEncoder(nn.Module):
    def __init__(self, mels=20, d=64):
        super().__init__()
        self.conv1 = nn.Conv1d(mels, d, 3, padding=1)
        self.conv2 = nn.Conv1d(d, d, 3, 2, 1)
        self.register_buffer("positional", torch.randn(50, d, generator=torch.Generator().manual_seed(0)) * .1)
        self.layers = nn.ModuleList([WhisperAttention(d) for _ in range(2)])
        self.norms = nn.ModuleList([nn.LayerNorm(d) for _ in range(2)])

    def forward(self, mel):
        x = F.gelu(self.conv2(F.gelu(self.conv1(mel)))).mT
        x = x + self.positional[:x.size(1)]
        for a, n in zip(self.layers, self.norms):
            x = x + a(n(x))
        return x


def model():
    torch.manual_seed(1)
    return MelEncoder().eval()


inputs = (torch.randn(2, 20, 26, generator=torch.Generator().manual_seed(2)),)
expect = {"scale": 0.25}
