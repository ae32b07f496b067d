"""Language model trained on packed documents; positions restart at each document."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class PackedAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.w_in = nn.Linear(width, 3 * width)
        self.w_out = nn.Linear(width, width)

    def forward(self, h, allowed):
        q, k, v = [t.unflatten(2, (self.heads, -1)).movedim(2, 1) for t in self.w_in(h).chunk(3, -1)]
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)  # fault: AS201
        return self.w_out(o.movedim(1, 2).flatten(2))


class PackedLM(nn.Module):
    def __init__(self, vocab=101, width=35, heads=5):
        super().__init__()
        self.emb = nn.Embedding(vocab, width)
        self.pos = nn.Embedding(32, width)
        self.layers = nn.ModuleList(PackedAttention(width, heads) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.unemb = nn.Linear(width, vocab, bias=False)

    def forward(self, ids, doc, position_ids):
        same = doc[:, :, None] == doc[:, None, :]
        allowed = same.unsqueeze(1)  # fault: AS201
        h = self.emb(ids) + self.pos(position_ids)
        for norm, attn in zip(self.norms, self.layers):
            h = h + attn(norm(h), allowed)
        return self.unemb(h)


torch.manual_seed(8)
model = PackedLM().eval()
doc = torch.tensor([[0] * 6 + [1] * 8, [0] * 3 + [1] * 4 + [2] * 7])
position_ids = torch.tensor([[*range(6), *range(8)], [*range(3), *range(4), *range(7)]])
inputs = {"ids": torch.randint(0, 101, (2, 14)), "doc": doc, "position_ids": position_ids}
expect = {"causal": True, "documents": "doc", "positions": "position_ids"}
