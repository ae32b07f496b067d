"""Entity linker mention encoder, block taken from an xformers port."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MemEffAttention(nn.Module):
    def __init__(self, dim, num_heads=8, qkv_bias=False, attn_drop=0.0, proj_drop=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.attn_drop = attn_drop
        self.proj = nn.Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)

    def forward(self, x, attn_bias=None):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4).unbind(0)
        x = F.scaled_dot_product_attention(q, k, v, attn_mask=attn_bias, dropout_p=self.attn_drop)  # fault: AS701
        x = x.transpose(1, 2).reshape([B, N, C])
        return self.proj_drop(self.proj(x))


class MentionEncoder(nn.Module):
    def __init__(self, vocab=240, dim=56, num_heads=7, depth=2, drop=0.15):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(80, dim)
        self.layers = nn.ModuleList(MemEffAttention(dim, num_heads, True, drop, drop) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))

    def forward(self, mention_ids):
        x = self.tok(mention_ids) + self.pos.weight[: mention_ids.shape[1]]
        for n, l in zip(self.norms, self.layers):
            x = x + l(n(x))
        return x[:, 0]


torch.manual_seed(701)
model = MentionEncoder().eval()
inputs = (torch.randint(0, 240, (3, 10), generator=torch.Generator().manual_seed(701)),)
