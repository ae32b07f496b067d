"""ViLBERT co-attention: text queries read image keys, image queries read text keys, each with the other's mask."""
import torch
import torch.nn as nn


class BiAttention(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h = h
        self.query1, self.key1, self.value1, self.query2, self.key2, self.value2 = (nn.Linear(d, d) for _ in range(6))
        self.dense1, self.dense2, self.norm1, self.norm2 = nn.Linear(d, d), nn.Linear(d, d), nn.LayerNorm(d), nn.LayerNorm(d)

    def split(self, x):
        return x.view(*x.shape[:-1], self.h, -1).permute(0, 2, 1, 3)

    def attend(self, q, k, v, mask):
        s = torch.matmul(self.split(q), self.split(k).transpose(-1, -2)) / (q.size(-1) // self.h) ** 0.5
        return torch.matmul((s + mask).softmax(-1), self.split(v)).permute(0, 2, 1, 3).flatten(2)

    def forward(self, t1, mask1, t2, mask2):
        c1 = self.attend(self.query2(t2), self.key1(t1), self.value1(t1), mask1)
        c2 = self.attend(self.query1(t1), self.key2(t2), self.value2(t2), mask2)
        return self.norm1(t1 + self.dense1(c2)), self.norm2(t2 + self.dense2(c1))


class ViLBERT(nn.Module):
    def __init__(self, vocab=50, d=32, vis=18):
        super().__init__()
        self.tok, self.pos, self.img = nn.Embedding(vocab, d), nn.Embedding(30, d), nn.Linear(vis + 4, d)
        self.co = nn.ModuleList([BiAttention(d) for _ in range(2)])

    def forward(self, ids, text_mask, regions, boxes, region_mask):
        ext = lambda m: (1.0 - m[:, None, None].float()) * -10000.0
        x, y = self.img(torch.cat([regions, boxes], -1)), self.tok(ids) + self.pos.weight[: ids.size(1)]
        for co in self.co:
            x, y = co(x, ext(region_mask), y, ext(text_mask))
        return x[:, 0] * y[:, 0]


with torch.random.fork_rng():
    torch.manual_seed(63)
    model = ViLBERT().eval()
_g = torch.Generator().manual_seed(63)
_len = lambda n, *l: (torch.arange(n)[None] < torch.tensor(l)[:, None]).long()
inputs = {
    "ids": torch.randint(0, 50, (2, 9), generator=_g), "text_mask": _len(9, 9, 5),
    "regions": torch.randn(2, 7, 18, generator=_g), "boxes": torch.rand(2, 7, 4, generator=_g), "region_mask": _len(7, 4, 7),
}
