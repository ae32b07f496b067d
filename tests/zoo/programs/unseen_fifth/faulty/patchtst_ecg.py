"""PatchTST on ECG leads, each lead handled on its own."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class PatchAttention(nn.Module):
    def __init__(self, d_model, n_heads, attn_dropout=0.2, res_attention=False):
        super().__init__()
        self.n_heads, self.d_k = n_heads, d_model // n_heads
        self.W_Q = nn.Linear(d_model, d_model)
        self.W_K = nn.Linear(d_model, d_model)
        self.W_V = nn.Linear(d_model, d_model)
        self.to_out = nn.Linear(d_model, d_model)
        self.attn_dropout = attn_dropout

    def forward(self, Q):
        bs = Q.size(0)
        q_s = self.W_Q(Q).view(bs, -1, self.n_heads, self.d_k).transpose(1, 2)
        k_s = self.W_K(Q).view(bs, -1, self.n_heads, self.d_k).permute(0, 2, 3, 1)
        v_s = self.W_V(Q).view(bs, -1, self.n_heads, self.d_k).transpose(1, 2)
        attn = F.softmax(torch.matmul(q_s, k_s) / self.d_k ** 0.5, dim=-1)
        attn = F.dropout(attn, self.attn_dropout)  # fault: AS701
        out = torch.matmul(attn, v_s).transpose(1, 2).contiguous().view(bs, -1, self.n_heads * self.d_k)
        return self.to_out(out)


class PatchTST(nn.Module):
    def __init__(self, leads=3, length=48, patch_len=8, stride=4, d_model=32, n_heads=4, classes=5):
        super().__init__()
        self.patch_len, self.stride = patch_len, stride
        n = (length - patch_len) // stride + 1
        self.W_P = nn.Linear(patch_len, d_model)
        self.W_pos = nn.Parameter(torch.empty(n, d_model).uniform_(-0.02, 0.02))
        self.attn = PatchAttention(d_model, n_heads)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, 64), nn.GELU(), nn.Linear(64, d_model))
        self.head = nn.Linear(leads * d_model, classes)

    def forward(self, ecg):
        b, c, _ = ecg.shape
        z = (ecg - ecg.mean(-1, keepdim=True)) / (ecg.std(-1, keepdim=True) + 1e-5)
        z = z.unfold(-1, self.patch_len, self.stride)
        z = self.W_P(z) + self.W_pos
        z = z.reshape(b * c, *z.shape[2:])
        z = self.norm1(z + self.attn(z))
        z = self.norm2(z + self.ff(z))
        return self.head(z.mean(1).reshape(b, -1))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(70)
        return PatchTST().eval()


inputs = {"ecg": torch.randn(2, 3, 48, generator=torch.Generator().manual_seed(69))}
