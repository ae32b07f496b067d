"""Chat model with rotary attention and a tuple KV cache; decoding feeds one token at a time."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def rope(x, start=0, base=10000.0):
    t, d = x.shape[-2:]
    inv = base ** -(torch.arange(0, d, 2, device=x.device).float() / d)
    ang = torch.outer(torch.arange(start, start + t, device=x.device).float(), inv)
    c, s = torch.cat([ang.cos()] * 2, -1), torch.cat([ang.sin()] * 2, -1)
    a, b = x.chunk(2, -1)
    return x * c + torch.cat([-b, a], -1) * s


class ChatAttention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.qkv, self.o = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)

    def forward(self, x, past=None):
        B, T, D = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.h, D // self.h).permute(2, 0, 3, 1, 4)
        start = 0 if past is None else past[0].size(2)
        q, k = rope(q, start), rope(k, start)
        if past is not None:
            pk, pv = past
            k, v = torch.cat([pk, k], 2), torch.cat([pv, v], 2)
        S = k.size(2)
        mask = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o(y.transpose(1, 2).reshape(B, T, D)), (k, v)


class ChatLM(nn.Module):
    def __init__(self, vocab=105, d=64, h=4, n=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.norm = nn.ModuleList(nn.RMSNorm(d) for _ in range(n))
        self.attn = nn.ModuleList(ChatAttention(d, h) for _ in range(n))
        self.lm_head = nn.Linear(d, vocab, bias=False)

    def forward(self, ids, cache=None):
        x, new = self.emb(ids), []
        for i, (n, a) in enumerate(zip(self.norm, self.attn)):
            y, kv = a(n(x), None if cache is None else cache[i])
            x = x + y
            new.append(kv)
        return self.lm_head(x), new


torch.manual_seed(601)
model = ChatLM().eval()
inputs = {"ids": torch.randint(0, 105, (2, 13), generator=torch.Generator().manual_seed(601))}
expect = {"causal": True, "cache": "cache"}
