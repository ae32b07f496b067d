"""World model for Atari: VQ tokens of several frames; block-causal over frames (tokens of a frame see each other)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def frame_mask(num_frames, tokens_per_frame):
    n = num_frames * tokens_per_frame
    f = torch.arange(n) // tokens_per_frame
    return f[:, None] >= f[None, :]


class Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x, mask):
        b, n, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, n, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)  # fault: AS205
        x = x + self.out(o.transpose(1, 2).reshape(b, n, d))
        return x + self.ff(self.ln2(x))


class WorldModel(nn.Module):
    def __init__(self, vocab=48, d=36, h=3, K=4, frames=6, layers=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.pos = nn.Parameter(torch.randn(frames * K, d) * 0.1)
        self.blocks = nn.ModuleList([Block(d, h) for _ in range(layers)])
        self.head = nn.Linear(d, vocab)
        self.register_buffer("mask", frame_mask(frames, K))

    def forward(self, tokens):
        n = tokens.size(1)
        x = self.emb(tokens) + self.pos[:n]
        mask = self.mask[:n, :n]
        for blk in self.blocks:
            x = blk(x, ~mask)  # fault: AS205
        return self.head(x)


# also: AS201 AS203 AS212
with torch.random.fork_rng():
    torch.manual_seed(47)
    model = WorldModel().eval()
inputs = (torch.randint(0, 48, (2, 20), generator=torch.Generator().manual_seed(47)),)
