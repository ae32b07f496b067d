"""Video captioning attention, code from 2018: nn.Softmax without arguments."""
import warnings

import torch
import torch.nn as nn

warnings.filterwarnings("ignore", message="Implicit dimension choice")


class ScaledDotProductAttention(nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature
        self.softmax = nn.Softmax(dim=2)

    def forward(self, q, k, v):
        attn = torch.bmm(q, k.transpose(1, 2)) / self.temperature
        attn = self.softmax(attn)
        return torch.bmm(attn, v), attn


class MultiHeadAttention(nn.Module):
    def __init__(self, n_head=3, d_model=36, d_k=12, d_v=12):
        super().__init__()
        self.n_head, self.d_k, self.d_v = n_head, d_k, d_v
        self.w_qs, self.w_ks, self.w_vs = nn.Linear(d_model, n_head * d_k), nn.Linear(d_model, n_head * d_k), nn.Linear(d_model, n_head * d_v)
        self.attention = ScaledDotProductAttention(temperature=d_k**0.5)
        self.layer_norm, self.fc = nn.LayerNorm(d_model), nn.Linear(n_head * d_v, d_model)

    def forward(self, q, k, v):
        n_head = self.n_head
        sz_b, len_q, _ = q.size()
        len_k = k.size(1)
        residual = q
        q = self.w_qs(q).view(sz_b, len_q, n_head, self.d_k).permute(2, 0, 1, 3).contiguous().view(-1, len_q, self.d_k)
        k = self.w_ks(k).view(sz_b, len_k, n_head, self.d_k).permute(2, 0, 1, 3).contiguous().view(-1, len_k, self.d_k)
        v = self.w_vs(v).view(sz_b, len_k, n_head, self.d_v).permute(2, 0, 1, 3).contiguous().view(-1, len_k, self.d_v)
        output, attn = self.attention(q, k, v)
        output = output.view(n_head, sz_b, len_q, self.d_v).permute(1, 2, 0, 3).contiguous().view(sz_b, len_q, -1)
        return self.layer_norm(self.fc(output) + residual)


class Captioner(nn.Module):
    def __init__(self):
        super().__init__()
        self.frame, self.slot = nn.Linear(16, 36), nn.Parameter(torch.randn(5, 36))
        self.att = MultiHeadAttention()

    def forward(self, frames):
        f = self.frame(frames)
        return self.att(self.slot.expand(frames.size(0), -1, -1), f, f)


with torch.random.fork_rng():
    torch.manual_seed(115)
    model = Captioner().eval()
inputs = torch.randn(4, 11, 16, generator=torch.Generator().manual_seed(115))
