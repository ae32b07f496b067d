"""Shifted-window attention with relative position bias and the region mask."""
import torch
import torch.nn as nn


def window_partition(x, ws):
    B, H, W, C = x.shape
    x = x.view(B, H // ws, ws, W // ws, ws, C)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, ws, ws, C)


def window_reverse(windows, ws, H, W):
    B = int(windows.shape[0] / (H * W / ws / ws))
    x = windows.view(B, H // ws, W // ws, ws, ws, -1)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(B, H, W, -1)


class WindowAttention(nn.Module):
    def __init__(self, dim, window_size, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.relative_position_bias_table = nn.Parameter(torch.randn((2 * window_size - 1) ** 2, num_heads) * 0.02)
        coords = torch.stack(torch.meshgrid(torch.arange(window_size), torch.arange(window_size), indexing="ij")).flatten(1)
        rel = (coords[:, :, None] - coords[:, None, :]).permute(1, 2, 0) + window_size - 1
        self.register_buffer("relative_position_index", rel[..., 0] * (2 * window_size - 1) + rel[..., 1])
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        B_, N, C = x.shape
        qkv = self.qkv(x).reshape(B_, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0] * self.scale, qkv[1], qkv[2]
        attn = q @ k.transpose(-2, -1)
        attn = attn + self.relative_position_bias_table[self.relative_position_index.view(-1)].view(N, N, -1).permute(2, 0, 1).unsqueeze(0)
        nW = mask.shape[0]
        attn = attn.view(nW, B_ // nW, self.num_heads, N, N) + mask.unsqueeze(1).unsqueeze(1)  # fault: AS211
        attn = attn.view(-1, self.num_heads, N, N).softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(B_, N, C))


class ShiftedBlock(nn.Module):
    def __init__(self, dim=32, heads=4, res=8, ws=4, shift=2):
        super().__init__()
        self.ws, self.shift, self.res = ws, shift, res
        self.norm1 = nn.LayerNorm(dim)
        self.attn = WindowAttention(dim, ws, heads)
        img_mask = torch.zeros((1, res, res, 1))
        cnt = 0
        for h in (slice(0, -ws), slice(-ws, -shift), slice(-shift, None)):
            for w in (slice(0, -ws), slice(-ws, -shift), slice(-shift, None)):
                img_mask[:, h, w, :] = cnt
                cnt += 1
        mw = window_partition(img_mask, ws).view(-1, ws * ws)
        am = mw.unsqueeze(1) - mw.unsqueeze(2)
        self.register_buffer("attn_mask", am.masked_fill(am != 0, -100.0).masked_fill(am == 0, 0.0))

    def forward(self, x):
        B, L, C = x.shape
        shortcut = x
        x = self.norm1(x).view(B, self.res, self.res, C)
        x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        x = self.attn(window_partition(x, self.ws).view(-1, self.ws**2, C), mask=self.attn_mask)
        x = window_reverse(x.view(-1, self.ws, self.ws, C), self.ws, self.res, self.res)
        return shortcut + torch.roll(x, (self.shift, self.shift), (1, 2)).reshape(B, L, C)


# also: AS102
with torch.random.fork_rng():
    torch.manual_seed(2)
    model = ShiftedBlock().eval()
inputs = torch.randn(3, 64, 32, generator=torch.Generator().manual_seed(2))
