"""Chat model with a tuple cache, prefill then chunks."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Attn(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x, past=None):
        B, T, D = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.h, D // self.h).permute(2, 0, 3, 1, 4)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # fault: AS206|AS601
        return self.out(y.transpose(1, 2).reshape(B, T, D)), (k, v)


class ChatLM(nn.Module):
    def __init__(self, vocab=72, d=32, h=4, n=2):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(64, d)
        self.attn = nn.ModuleList([Attn(d, h) for _ in range(n)])
        self.ln = nn.ModuleList([nn.LayerNorm(d) for _ in range(n)])
        self.head = nn.Linear(d, vocab)

    def forward(self, input_ids, past=None):
        off = 0 if past is None else past[0][0].size(2)
        x = self.wte(input_ids) + self.wpe(torch.arange(off, off + input_ids.size(1)))
        new = []
        for i, (a, l) in enumerate(zip(self.attn, self.ln)):
            y, c = a(l(x), None if past is None else past[i])
            x = x + y
            new.append(c)
        return self.head(x), new


def model():
    torch.manual_seed(26)
    return ChatLM().eval()


inputs = {"input_ids": torch.randint(0, 72, (2, 10), generator=torch.Generator().manual_seed(26))}
expect = {"causal": True, "cache": "past"}
# also: AS601 AS212
