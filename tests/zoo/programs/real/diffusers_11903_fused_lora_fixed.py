"""Diffusion transformer with fused projections and LoRA on them, https://github.com/huggingface/diffusers/issues/11903."""

import torch
import torch.nn.functional as F
from torch import nn


class LoraLinear(nn.Module):
    def __init__(self, base, rank=3, alpha=6.0):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_A = nn.Linear(base.in_features, rank, bias=False)
        self.lora_B = nn.Linear(rank, base.out_features, bias=False)
        nn.init.normal_(self.lora_B.weight, std=0.02)
        self.scaling = alpha / rank

    def forward(self, x):
        return self.base(x) + self.scaling * self.lora_B(self.lora_A(x))


class Attention(nn.Module):
    def __init__(self, query_dim, heads):
        super().__init__()
        self.heads = heads
        self.fused_projections = False
        self.to_q = nn.Linear(query_dim, query_dim, bias=False)
        self.to_k = nn.Linear(query_dim, query_dim, bias=False)
        self.to_v = nn.Linear(query_dim, query_dim, bias=False)
        self.to_out = nn.Linear(query_dim, query_dim)

    @torch.no_grad()
    def fuse_projections(self):
        weights = [self.to_q.weight, self.to_k.weight, self.to_v.weight]
        out_features = sum(w.shape[0] for w in weights)
        self.to_qkv = nn.Linear(self.to_q.in_features, out_features, bias=False)
        self.to_qkv.weight.copy_(torch.cat(weights))
        self.fused_projections = True
        del self.to_q, self.to_k, self.to_v

    def forward(self, hidden_states):
        if self.fused_projections:
            query, key, value = self.to_qkv(hidden_states).chunk(3, dim=-1)
        else:
            query = self.to_q(hidden_states)
            key = self.to_k(hidden_states)
            value = self.to_v(hidden_states)
        b, n, inner = query.shape
        query, key, value = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in (query, key, value))
        out = F.scaled_dot_product_attention(query, key, value)
        return self.to_out(out.transpose(1, 2).reshape(b, n, inner))


class DiTBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm = nn.LayerNorm(dim, elementwise_affine=False)
        self.ada = nn.Linear(dim, 2 * dim)
        self.attn = Attention(dim, heads)

    def forward(self, x, temb):
        shift, scale = self.ada(temb)[:, None].chunk(2, dim=-1)
        return x + self.attn(self.norm(x) * (1 + scale) + shift)


class DiT(nn.Module):
    def __init__(self, channels=3, patch=4, side=12, dim=28, heads=4, depth=2):
        super().__init__()
        self.patch_embed = nn.Conv2d(channels, dim, patch, stride=patch)
        self.pos_embed = nn.Parameter(torch.randn(1, (side // patch) ** 2, dim) * 0.02)
        self.time_embed = nn.Sequential(nn.Linear(1, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.blocks = nn.ModuleList([DiTBlock(dim, heads) for _ in range(depth)])
        self.proj_out = nn.Linear(dim, patch * patch * channels)

    def fuse_qkv_projections(self):
        for block in self.blocks:
            block.attn.fuse_projections()

    def forward(self, sample, timestep):
        x = self.patch_embed(sample).flatten(2).transpose(1, 2) + self.pos_embed
        temb = self.time_embed(timestep[:, None])
        for block in self.blocks:
            x = block(x, temb)
        return self.proj_out(x)


def add_lora(transformer, targets):
    for block in transformer.blocks:
        for name in targets:
            setattr(block.attn, name, LoraLinear(getattr(block.attn, name)))


with torch.random.fork_rng():
    torch.manual_seed(11903)
    model = DiT().eval()
    model.fuse_qkv_projections()
    add_lora(model, ["to_qkv"])
    inputs = {"sample": torch.randn(2, 3, 12, 12), "timestep": torch.tensor([0.1, 0.7])}
