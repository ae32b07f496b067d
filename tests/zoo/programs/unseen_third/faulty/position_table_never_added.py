"""BERT-ish MLM, embeddings in a ModuleDict."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Embeds(nn.Module):
    def __init__(self, vocab, d, max_len):
        super().__init__()
        self.tables = nn.ModuleDict({"word": nn.Embedding(vocab, d), "position": nn.Embedding(max_len, d)})
        self.norm = nn.LayerNorm(d)

    def forward(self, ids):
        e = self.tables["word"](ids)
        p = self.tables["position"](torch.arange(ids.size(1), device=ids.device))
        e + p  # fault: AS501|AS903
        return self.norm(e)  # fault: AS501|AS903


class MLM(nn.Module):
    def __init__(self, vocab=66, d=32, h=4, n=2, max_len=32):
        super().__init__()
        self.h = h
        self.embeddings = Embeds(vocab, d, max_len)
        self.att = nn.ModuleList([nn.ModuleList([nn.Linear(d, 3 * d), nn.Linear(d, d), nn.LayerNorm(d)]) for _ in range(n)])
        self.decoder = nn.Linear(d, vocab)

    def forward(self, ids):
        x = self.embeddings(ids)
        b, t, d = x.shape
        for qkv, o, ln in self.att:
            q, k, v = qkv(x).view(b, t, 3, self.h, -1).permute(2, 0, 3, 1, 4)
            a = F.scaled_dot_product_attention(q, k, v)  # fault: AS501
            x = ln(x + o(a.transpose(1, 2).reshape(b, t, d)))
        return self.decoder(x)


torch.manual_seed(0)
model = MLM().eval()
