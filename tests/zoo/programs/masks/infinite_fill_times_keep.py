"""Decoder with left-padded prompts; causal and padding masks are prepared apart and combined."""

import torch
from torch import nn


class SmallDecoder(nn.Module):
    def __init__(self, vocab=48, dim=28, heads=2, layers=2):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(40, dim)
        self.ln = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.qkv = nn.ModuleList(nn.Linear(dim, 3 * dim) for _ in range(layers))
        self.proj = nn.ModuleList(nn.Linear(dim, dim) for _ in range(layers))
        self.final = nn.LayerNorm(dim)
        self.lm_head = nn.Linear(dim, vocab, bias=False)

    def _make_causal_mask(self, n, dtype):
        mask = torch.full((n, n), torch.finfo(dtype).min, dtype=dtype)
        return mask.triu(1)[None, None]

    def _expand_mask(self, mask, dtype):
        inverted = 1.0 - mask[:, None, None, :].to(dtype)
        return inverted * float("-inf")  # fault: AS207|AS802

    def forward(self, input_ids, attention_mask):
        b, n = input_ids.shape
        position_ids = (attention_mask.cumsum(-1) - 1).clamp_min(0)
        x = self.embed(input_ids) + self.pos(position_ids)
        combined = torch.minimum(
            self._make_causal_mask(n, x.dtype), self._expand_mask(attention_mask, x.dtype)
        )
        for ln, qkv, proj in zip(self.ln, self.qkv, self.proj):
            q, k, v = qkv(ln(x)).view(b, n, self.heads, 3, -1).permute(3, 0, 2, 1, 4)
            scores = torch.matmul(q, k.mT) * q.shape[-1] ** -0.5 + combined
            weights = scores.softmax(-1)
            x = x + proj(torch.matmul(weights, v).transpose(1, 2).reshape(b, n, -1))
        return self.lm_head(self.final(x))


# also: AS802 AS203
with torch.random.fork_rng():
    torch.manual_seed(39)
    model = SmallDecoder().eval()


def inputs():
    mask = (torch.arange(8)[None] >= torch.tensor([[3], [0], [1]])).long()
    ids = torch.randint(1, 48, (3, 8), generator=torch.Generator().manual_seed(39)) * mask
    return {"input_ids": ids, "attention_mask": mask}


expect = {"causal": True, "padding": "attention_mask keep"}
