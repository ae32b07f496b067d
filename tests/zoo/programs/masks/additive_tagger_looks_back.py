"""Document encoder with additive self-attention (v tanh(W h + U h))."""
import torch
from torch import nn

class Additive(nn.Module):
    def __init__(self, d=24, a=16):
        super().__init__()
        self.W = nn.Linear(d, a, bias=False)
        self.U = nn.Linear(d, a)
        self.v = nn.Linear(a, 1, bias=False)

    def forward(self, h, mask):
        e = self.v(torch.tanh(self.W(h).unsqueeze(2) + self.U(h).unsqueeze(1))).squeeze(-1)
        n = h.size(1)
        e = e.masked_fill(torch.ones(n, n).triu(1).bool() | ~mask[:, None], -1e9)
        w = torch.softmax(e, dim=-1)
        return torch.bmm(w, h)

class Tagger(nn.Module):
    def __init__(self, vocab=60, d=24):
        super().__init__()
        self.emb = nn.Embedding(vocab, d, padding_idx=0)
        self.pos = nn.Embedding(40, d)
        self.att = Additive(d)
        self.out = nn.Linear(2 * d, 5)

    def forward(self, tokens, mask):
        h = self.emb(tokens) + self.pos(torch.arange(tokens.size(1)))
        c = self.att(h, mask)
        return self.out(torch.cat((h, c), -1))

with torch.random.fork_rng():
    torch.manual_seed(0)
    model = Tagger().eval()
tokens = torch.randint(1, 60, (3, 8), generator=torch.Generator().manual_seed(1))
mask = torch.ones(3, 8, dtype=torch.bool)
mask[1, 6:] = False
mask[2, 3:] = False
inputs = {"tokens": tokens * mask, "mask": mask}
expect = {"causal": True}
