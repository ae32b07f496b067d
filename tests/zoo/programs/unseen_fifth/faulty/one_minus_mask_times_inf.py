"""Keyword spotter over ASR hypotheses; extended attention mask in the BERT manner."""
import torch
import torch.nn as nn


def extend(attention_mask, dtype=torch.float32):
    m = attention_mask[:, None, None, :].to(dtype)
    return (1.0 - m) * float("-inf")  # fault: AS802|AS207


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.dense = (nn.Linear(dim, dim) for _ in range(4))
        self.LayerNorm = nn.LayerNorm(dim)

    def transpose_for_scores(self, x):
        return x.view(*x.size()[:-1], self.heads, x.size(-1) // self.heads).permute(0, 2, 1, 3)

    def forward(self, h, ext):
        q, k, v = (self.transpose_for_scores(f(h)) for f in (self.query, self.key, self.value))
        s = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5 + ext
        c = (s.softmax(-1) @ v).permute(0, 2, 1, 3).flatten(2)
        return self.LayerNorm(h + self.dense(c))


class KeywordSpotter(nn.Module):
    def __init__(self, vocab=130, dim=30, heads=3, n=2):
        super().__init__()
        self.emb, self.pos = nn.Embedding(vocab, dim), nn.Embedding(40, dim)
        self.layer = nn.ModuleList(Layer(dim, heads) for _ in range(n))
        self.kw = nn.Linear(dim, 1)

    def forward(self, input_ids, attention_mask):
        h = self.emb(input_ids) + self.pos.weight[: input_ids.size(1)]
        ext = extend(attention_mask)
        for l in self.layer:
            h = l(h, ext)
        return self.kw(h).squeeze(-1)


with torch.random.fork_rng():
    torch.manual_seed(802)
    model = KeywordSpotter().eval()
_m = torch.ones(2, 9, dtype=torch.long)
_m[1, 6:] = 0
inputs = {"input_ids": torch.randint(1, 130, (2, 9), generator=torch.Generator().manual_seed(8)) * _m, "attention_mask": _m}
