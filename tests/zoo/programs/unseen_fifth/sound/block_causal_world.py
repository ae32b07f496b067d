"""Robot world model: tokens of one frame see each other, frames are causal."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class BlockCausal(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.wqkv, self.wo = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)

    def forward(self, x, mask):
        B, L, d = x.shape
        q, k, v = self.wqkv(x).view(B, L, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        return self.wo(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).reshape(B, L, d))


class FrameModel(nn.Module):
    def __init__(self, tokens_per_frame=4, d=36, heads=3, max_frames=12, acts=5):
        super().__init__()
        self.k = tokens_per_frame
        self.inp = nn.Linear(6, d)
        self.act = nn.Embedding(acts, d)
        self.time = nn.Embedding(max_frames, d)
        self.slot = nn.Embedding(tokens_per_frame, d)
        self.layers = nn.ModuleList(BlockCausal(d, heads) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(2))
        self.out = nn.Linear(d, 6)

    def forward(self, frames, actions):
        B, T, K, _ = frames.shape
        x = self.inp(frames) + self.act(actions)[:, :, None] + self.time.weight[:T, None] + self.slot.weight
        x = x.flatten(1, 2)
        f = torch.arange(T).repeat_interleave(K)
        mask = f[:, None] >= f[None, :]
        for a, n in zip(self.layers, self.norms):
            x = x + a(n(x), mask)
        return self.out(x).view(B, T, K, -1)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(42)
        return FrameModel().eval()


g = torch.Generator().manual_seed(43)
inputs = {"frames": torch.randn(2, 5, 4, 6, generator=g), "actions": torch.randint(0, 5, (2, 5), generator=g)}
