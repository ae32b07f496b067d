"""Clinical notes: weights are normalised by one denominator for all heads of a query."""

import torch
import torch.nn as nn


class NoteEncoder(nn.Module):
    def __init__(self, vocab=60, hidden=36, n_heads=3):
        super().__init__()
        self.emb = nn.Embedding(vocab, hidden)
        self.pos = nn.Parameter(0.02 * torch.randn(32, hidden))
        self.n_heads = n_heads
        self.q_proj = nn.Linear(hidden, hidden)
        self.k_proj = nn.Linear(hidden, hidden)
        self.v_proj = nn.Linear(hidden, hidden)
        self.o_proj = nn.Linear(hidden, hidden)

    def heads(self, t):
        bs, length, _ = t.shape
        return t.view(bs, length, self.n_heads, -1).transpose(1, 2)

    def forward(self, token_ids):
        x = self.emb(token_ids) + self.pos[: token_ids.size(1)]
        q, k, v = self.heads(self.q_proj(x)), self.heads(self.k_proj(x)), self.heads(self.v_proj(x))
        logits = torch.matmul(q, k.transpose(2, 3)) / (q.size(-1) ** 0.5)
        denominator = torch.logsumexp(logits.transpose(1, 2).flatten(2), dim=-1)  # fault: AS101
        weights = (logits - denominator[:, None, :, None]).exp()  # fault: AS101
        out = torch.matmul(weights, v).transpose(1, 2).flatten(2)
        return self.o_proj(out)


model = NoteEncoder().eval()
inputs = torch.randint(0, 60, (2, 10))
