"""Q-Former: queries and text share self-attention (queries do not see the text), cross-attention in every second layer."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Mha(nn.Module):
    def __init__(self, d, dk, h):
        super().__init__()
        self.h = h
        self.query, self.key, self.value, self.dense, self.norm = nn.Linear(d, d), nn.Linear(dk, d), nn.Linear(dk, d), nn.Linear(d, d), nn.LayerNorm(d)

    def forward(self, x, ctx, mask=None):
        q, k, v = (f(t).unflatten(-1, (self.h, -1)).transpose(1, 2) for f, t in ((self.query, x), (self.key, ctx), (self.value, ctx)))
        return self.norm(x + self.dense(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)))


class QFormer(nn.Module):
    def __init__(self, d=32, vis=20, h=4, nq=5, layers=4, vocab=40):
        super().__init__()
        self.query_tokens, self.word, self.pos = nn.Parameter(torch.randn(1, nq, d)), nn.Embedding(vocab, d), nn.Embedding(32, d)
        self.self_attn = nn.ModuleList([Mha(d, d, h) for _ in range(layers)])
        self.cross = nn.ModuleDict({str(i): Mha(d, vis, h) for i in range(0, layers, 2)})

    def forward(self, image_embeds, input_ids, attention_mask):
        b, nq = len(input_ids), self.query_tokens.size(1)
        x = torch.cat([self.query_tokens.expand(b, -1, -1), self.word(input_ids) + self.pos.weight[: input_ids.size(1)]], 1)
        n = x.size(1)
        allow = torch.ones(n, n, dtype=torch.bool).tril()
        allow[:nq, :nq] = True
        text = torch.cat([attention_mask.new_ones(b, nq), attention_mask], 1).bool()
        allow = (allow & text[:, None]).unsqueeze(1)
        for i, sa in enumerate(self.self_attn):
            x = sa(x, x, allow)
            if str(i) in self.cross:
                x = torch.cat([self.cross[str(i)](x[:, :nq], image_embeds), x[:, nq:]], 1)
        return x[:, :nq], x[:, nq:] @ self.word.weight.T


with torch.random.fork_rng():
    torch.manual_seed(51)
    model = QFormer().eval()
_g = torch.Generator().manual_seed(51)
inputs = {
    "image_embeds": torch.randn(2, 9, 20, generator=_g),
    "input_ids": torch.randint(0, 40, (2, 8), generator=_g),
    "attention_mask": (torch.arange(8)[None] < torch.tensor([8, 5])[:, None]).long(),
}
