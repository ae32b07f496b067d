"""TensorFlow SASRec translated line by line: key masking by the absolute sum of the embeddings."""
import torch
import torch.nn as nn


def multihead_attention(queries, keys, wq, wk, wv, num_heads):
    Q, K, V = wq(queries), wk(keys), wv(keys)
    Q_ = torch.cat(torch.chunk(Q, num_heads, dim=2), dim=0)
    K_ = torch.cat(torch.chunk(K, num_heads, dim=2), dim=0)
    V_ = torch.cat(torch.chunk(V, num_heads, dim=2), dim=0)
    outputs = torch.matmul(Q_, K_.permute(0, 2, 1)) / (K_.size(-1) ** 0.5)
    key_masks = torch.sign(torch.abs(keys).sum(-1)).repeat(num_heads, 1).unsqueeze(1).expand(-1, queries.size(1), -1)  # fault: AS202
    paddings = torch.ones_like(outputs) * (-(2**32) + 1)
    outputs = torch.where(key_masks == 0, paddings, outputs)  # fault: AS202
    return torch.cat(torch.chunk(torch.softmax(outputs, -1) @ V_, num_heads, dim=0), dim=2)


class Recommender(nn.Module):
    def __init__(self, items=64, d=30, heads=2, maxlen=18):
        super().__init__()
        self.heads = heads
        self.item, self.pos = nn.Embedding(items, d, padding_idx=0), nn.Embedding(maxlen, d)
        self.wq, self.wk, self.wv = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, seq):
        x = self.item(seq)
        x = x + self.pos.weight[: seq.size(1)]  # fault: AS202
        y = multihead_attention(x, x, self.wq, self.wk, self.wv, self.heads)
        return (x + y) @ self.item.weight.T


with torch.random.fork_rng():
    torch.manual_seed(119)
    model = Recommender().eval()
_s = torch.randint(1, 64, (3, 14), generator=torch.Generator().manual_seed(119))
_s[0, 8:] = 0
_s[1, 11:] = 0
inputs = {"seq": _s}
expect = {"padding": "seq pad=0"}
