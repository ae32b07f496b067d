"""DiT-like image transformer with axial rotary embedding: half of the width for rows, half for columns."""
import torch
import torch.nn as nn


def axial_table(h, w, dim, theta=100.0):
    f = 1.0 / theta ** (torch.arange(0, dim // 2, 2).float() / (dim // 2))
    ys, xs = torch.meshgrid(torch.arange(h).float(), torch.arange(w).float(), indexing="ij")
    return torch.cat([ys.reshape(-1, 1) * f, xs.reshape(-1, 1) * f], -1)  # (n, dim/2)


def apply_rope(x, ang):
    cos = ang.cos().repeat_interleave(2, -1)
    sin = ang.sin().repeat(1, 2)  # fault: AS503
    x1, x2 = x[..., 0::2], x[..., 1::2]
    rot = torch.stack([-x2, x1], -1).flatten(-2)
    return x * cos + rot * sin


class AxialAttention(nn.Module):
    def __init__(self, dim=48, heads=3, grid=(4, 5)):
        super().__init__()
        self.heads = heads
        self.to_qkv, self.to_out = nn.Linear(dim, dim * 3), nn.Linear(dim, dim)
        self.register_buffer("ang", axial_table(*grid, dim // heads))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.to_qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        q, k = apply_rope(q, self.ang), apply_rope(k, self.ang)  # fault: AS503
        a = torch.einsum("bhnd,bhmd->bhnm", q, k) * q.shape[-1] ** -0.5
        return self.to_out(torch.einsum("bhnm,bhmd->bnhd", a.softmax(-1), v).reshape(b, n, d))


with torch.random.fork_rng():
    torch.manual_seed(75)
    model = AxialAttention().eval()
inputs = torch.randn(2, 20, 48, generator=torch.Generator().manual_seed(75))
