"""PatchTST-like forecaster: every channel is cut into patches and encoded alone."""
import torch
from torch import nn, Tensor


class PatchEncoder(nn.Module):
    def __init__(self, patch_len, d_model, n_heads, max_patches=32):
        super().__init__()
        self.W_P = nn.Linear(patch_len, d_model)
        self.W_pos = nn.Parameter(torch.empty(max_patches, d_model).uniform_(-0.2, 0.2))
        self.W_Q, self.W_K, self.W_V = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.to_out = nn.Linear(d_model, d_model)
        self.n_heads, self.d_k = n_heads, d_model // n_heads
        self.norm = nn.BatchNorm1d(d_model)

    def forward(self, x: Tensor) -> Tensor:  # [bs x nvars x patch_num x patch_len]
        n_vars, patch_num = x.shape[1], x.shape[2]
        x = self.W_P(x)
        u = torch.reshape(x, (x.shape[0] * x.shape[1], x.shape[2], x.shape[3])) + self.W_pos[:patch_num]
        bs = u.size(0)
        q_s = self.W_Q(u).view(bs, -1, self.n_heads, self.d_k).transpose(1, 2)
        k_s = self.W_K(u).view(bs, -1, self.n_heads, self.d_k).permute(0, 2, 3, 1)
        v_s = self.W_V(u).view(bs, -1, self.n_heads, self.d_k).transpose(1, 2)
        attn = torch.softmax(torch.matmul(q_s, k_s) * self.d_k**-0.5, dim=-1)
        out = torch.matmul(attn, v_s).transpose(1, 2).contiguous().view(bs, -1, self.n_heads * self.d_k)
        z = u + self.to_out(out)
        z = self.norm(z.transpose(1, 2)).transpose(1, 2)
        return z.reshape(-1, n_vars, patch_num, z.shape[-1])


class PatchTST(nn.Module):
    def __init__(self, context=48, horizon=6, patch_len=8, stride=4, d_model=24):
        super().__init__()
        self.patch_len, self.stride = patch_len, stride
        n = (context - patch_len) // stride + 1
        self.backbone = PatchEncoder(patch_len, d_model, 3)
        self.head = nn.Linear(n * d_model, horizon)

    def forward(self, z):
        z = z.permute(0, 2, 1)
        z = z.unfold(dimension=-1, size=self.patch_len, step=self.stride)
        z = self.backbone(z)
        return self.head(z.flatten(2)).permute(0, 2, 1)


with torch.random.fork_rng():
    torch.manual_seed(14)
    model = PatchTST().eval()
inputs = torch.randn(2, 48, 5, generator=torch.Generator().manual_seed(12))
