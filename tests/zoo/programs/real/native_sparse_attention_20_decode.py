"""Sparse attention with compressed, selected and sliding branches, https://github.com/lucidrains/native-sparse-attention-pytorch/issues/20."""

import torch
import torch.nn.functional as F
from torch import nn


def attend(q, k, v, mask):
    sim = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    attn = sim.masked_fill(~mask, -torch.finfo(sim.dtype).max).softmax(dim=-1)
    return attn @ v, attn


class SparseAttention(nn.Module):
    def __init__(self, dim, heads=2, dim_head=16, block_size=4, num_selected=1, window=3):
        super().__init__()
        self.heads, self.block_size, self.num_selected, self.window = heads, block_size, num_selected, window
        self.to_qkv = nn.Linear(dim, 3 * heads * dim_head, bias=False)
        self.mem_kv = nn.Parameter(torch.randn(2, heads, 1, dim_head) * 0.1)
        self.to_gates = nn.Sequential(nn.Linear(dim, 3 * heads), nn.Sigmoid())
        self.combine = nn.Linear(heads * dim_head, dim, bias=False)

    def project(self, x):
        return (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.to_qkv(x).chunk(3, dim=-1))

    def compressed(self, q, k, v, positions):
        batch, bs = q.shape[0], self.block_size
        blocks = k.shape[2] // bs
        ck, cv = (t[:, :, : blocks * bs].unflatten(2, (blocks, bs)).mean(dim=3) for t in (k, v))
        mk, mv = (m.expand(batch, -1, -1, -1) for m in self.mem_kv)
        ends = (torch.arange(blocks) + 1) * bs
        visible = ends[None, :] <= positions[:, None] + 1
        mask = F.pad(visible, (1, 0), value=True)
        out, attn = attend(q, torch.cat((mk, ck), dim=2), torch.cat((mv, cv), dim=2), mask)
        importance = attn[..., 1:].masked_fill(~visible, -1.0)
        top = importance.topk(min(self.num_selected, blocks), dim=-1).indices
        chosen = torch.zeros_like(importance, dtype=torch.bool).scatter(-1, top, True) & visible
        return out, chosen

    def selected(self, q, k, v, chosen, positions):
        keys, bs = torch.arange(k.shape[2]), self.block_size
        from_blocks = F.pad(chosen.repeat_interleave(bs, dim=-1), (0, len(keys)))[..., : len(keys)]
        own = (keys // bs == positions[:, None] // bs) & (keys <= positions[:, None])
        return attend(q, k, v, from_blocks | own)[0]

    def sliding(self, q, k, v, positions):
        distance = positions[:, None] - torch.arange(k.shape[2])
        return attend(q, k, v, (distance >= 0) & (distance < self.window))[0]

    def merge(self, x, branches):
        gates = self.to_gates(x).unflatten(-1, (3, self.heads)).permute(2, 0, 3, 1).unsqueeze(-1)
        out = (gates * torch.stack(branches)).sum(dim=0)
        return self.combine(out.transpose(1, 2).flatten(2))

    def forward_inference(self, x, cache):
        past_k, past_v = cache
        q, k, v = self.project(x)
        position = torch.tensor([past_k.shape[2]])
        k, v = torch.cat((past_k, k), dim=2), torch.cat((past_v, v), dim=2)
        coarse, chosen = self.compressed(q, k, v, position)
        fine = self.selected(q, past_k, past_v, chosen, position)  # fault: AS601
        local = self.sliding(q, k, v, position)
        return self.merge(x, [coarse, fine, local]), (k, v)

    def forward(self, x, cache=None):
        if cache is not None:
            outs = []
            for token in x.split(1, dim=1):
                out, cache = self.forward_inference(token, cache)
                outs.append(out)
            return torch.cat(outs, dim=1), cache
        q, k, v = self.project(x)
        positions = torch.arange(x.shape[1])
        coarse, chosen = self.compressed(q, k, v, positions)
        fine = self.selected(q, k, v, chosen, positions)
        local = self.sliding(q, k, v, positions)
        return self.merge(x, [coarse, fine, local]), (k, v)


class Transformer(nn.Module):
    def __init__(self, num_tokens=89, dim=32, depth=2, max_len=64):
        super().__init__()
        self.token_emb = nn.Embedding(num_tokens, dim)
        self.pos_emb = nn.Embedding(max_len, dim)
        self.layers = nn.ModuleList([nn.ModuleList([nn.RMSNorm(dim), SparseAttention(dim)]) for _ in range(depth)])
        self.to_logits = nn.Linear(dim, num_tokens, bias=False)

    def forward(self, ids, cache=None):
        start = 0 if cache is None else cache[0][0].shape[2]
        x = self.token_emb(ids) + self.pos_emb(start + torch.arange(ids.shape[1]))
        next_cache = []
        for i, (norm, attn) in enumerate(self.layers):
            out, layer_cache = attn(norm(x), None if cache is None else cache[i])
            x = x + out
            next_cache.append(layer_cache)
        return self.to_logits(x), next_cache


def model():
    with torch.random.fork_rng():
        torch.manual_seed(20)
        return Transformer().eval()


inputs = {"ids": torch.randint(0, 89, (2, 15), generator=torch.Generator().manual_seed(3))}
expect = {"causal": True, "cache": "cache"}
