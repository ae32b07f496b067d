"""Global attention layer of a GraphGPS-like model; graphs come concatenated with a batch vector."""
import torch
import torch.nn as nn


class GPSLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.local = nn.Linear(dim, dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.norm_l, self.norm_a, self.norm_o = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def forward(self, x, edge_index, batch):
        src, dst = edge_index
        msg = torch.zeros_like(x).index_add_(0, dst, self.local(x)[src])
        h_local = self.norm_l(x + msg)
        h = x.unsqueeze(0)
        other = batch[:, None] != batch[None, :]
        h_attn = self.attn(h, h, h, attn_mask=other, need_weights=False)[0].squeeze(0)
        h_attn = self.norm_a(x + h_attn)
        out = h_local + h_attn
        return self.norm_o(out + self.ff(out))


class GPS(nn.Module):
    def __init__(self, in_dim=5, dim=24, heads=3, layers=2):
        super().__init__()
        self.node = nn.Linear(in_dim, dim)
        self.layers = nn.ModuleList([GPSLayer(dim, heads) for _ in range(layers)])
        self.readout = nn.Linear(dim, 1)

    def forward(self, x, edge_index, batch):
        h = self.node(x)
        for layer in self.layers:
            h = layer(h, edge_index, batch)
        n = int(batch.max()) + 1
        pooled = torch.zeros(n, h.size(1)).index_add_(0, batch, h) / torch.bincount(batch, minlength=n).unsqueeze(1)
        return self.readout(pooled)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(45)
        return GPS().eval()


def inputs():
    x = torch.randn(12, 5, generator=torch.Generator().manual_seed(46))
    batch = torch.tensor([0] * 4 + [1] * 5 + [2] * 3)
    a = torch.tensor([0, 1, 2, 4, 5, 6, 7, 9, 10])
    edge_index = torch.stack([torch.cat([a, a + 1]), torch.cat([a + 1, a])])
    return {"x": x, "edge_index": edge_index, "batch": batch}


expect = {"documents": "batch"}
