"""A small GPT that generates for batches of prompts."""
import torch
from torch import nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x, keep, past):
        B, T, C = x.shape
        q, k, v = [t.view(B, T, self.h, -1).transpose(1, 2) for t in self.qkv(self.ln1(x)).split(C, 2)]
        if past is not None:
            k = torch.cat((past[0], k), dim=2)
            v = torch.cat((past[1], v), dim=2)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        x = x + self.proj(y.transpose(1, 2).reshape(B, T, C))
        return x + self.mlp(self.ln2(x)), (k, v)


class GPT(nn.Module):
    def __init__(self, vocab=61, d=32, h=4, layers=2):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Embedding(64, d)
        self.blocks = nn.ModuleList(Block(d, h) for _ in range(layers))
        self.head = nn.Linear(d, vocab, bias=False)

    def forward(self, input_ids, attention_mask=None, past_key_values=None):
        B, T = input_ids.shape
        seen = 0 if past_key_values is None else past_key_values[0][0].size(2)
        if attention_mask is None:
            attention_mask = torch.ones(B, seen + T, dtype=torch.long)
        if seen:
            positions = torch.arange(seen, seen + T)[None]  # fault: AS601|AS504
        else:
            positions = (attention_mask.cumsum(-1) - 1).clamp(min=0)
        x = self.tok(input_ids) + self.pos(positions)
        total = seen + T
        causal = torch.ones(T, total, dtype=torch.bool).tril(seen)
        keep = causal & attention_mask[:, None, None, :].bool()
        keep = keep | torch.eye(T, total, dtype=torch.bool).roll(seen, 1)
        presents = []
        for i, block in enumerate(self.blocks):
            x, kv = block(x, keep, None if past_key_values is None else past_key_values[i])
            presents.append(kv)
        return self.head(x), presents


torch.manual_seed(3)
model = GPT().eval()
inputs = {"input_ids": torch.randint(0, 61, (3, 9)), "attention_mask": torch.ones(3, 9, dtype=torch.long)}
expect = {"causal": True, "cache": "past_key_values", "padding": "attention_mask keep"}
