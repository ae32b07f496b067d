"""Speech LLM adapter: grouped-query attention, keys expanded by hand."""
import torch
import torch.nn as nn


class GQA(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.n_heads, self.n_kv, self.hd = args["n_heads"], args["n_kv_heads"], args["dim"] // args["n_heads"]
        self.n_rep = self.n_heads // self.n_kv
        self.wq = nn.Linear(args["dim"], self.n_heads * self.hd, bias=False)
        self.wk = nn.Linear(args["dim"], self.n_kv * self.hd, bias=False)
        self.wv = nn.Linear(args["dim"], self.n_kv * self.hd, bias=False)
        self.wo = nn.Linear(self.n_heads * self.hd, args["dim"], bias=False)

    def repeat_kv(self, x):
        bs, n, kv, hd = x.shape
        x = x[:, :, None, :, :].expand(bs, n, self.n_rep, kv, hd)  # fault: AS104
        return x.reshape(bs, n, self.n_heads, hd)  # fault: AS104

    def forward(self, x):
        b, t, _ = x.shape
        xq = self.wq(x).view(b, t, self.n_heads, self.hd)
        keys = self.repeat_kv(self.wk(x).view(b, t, self.n_kv, self.hd))
        values = self.repeat_kv(self.wv(x).view(b, t, self.n_kv, self.hd))
        xq, keys, values = xq.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2)
        scores = torch.matmul(xq, keys.transpose(2, 3)) * self.hd**-0.5
        scores = scores + torch.triu(torch.full((t, t), float("-inf")), 1)
        out = torch.matmul(scores.softmax(-1), values)  # fault: AS104
        return self.wo(out.transpose(1, 2).reshape(b, t, -1))


class Adapter(nn.Module):
    def __init__(self, **args):
        super().__init__()
        self.args = args
        self.inp, self.pos = nn.Linear(args["feats"], args["dim"]), nn.Embedding(64, args["dim"])
        self.layers = nn.ModuleList([GQA(args) for _ in range(2)])
        self.norms = nn.ModuleList([nn.RMSNorm(args["dim"]) for _ in range(2)])

    def forward(self, speech):
        x = self.inp(speech) + self.pos.weight[: speech.size(1)]
        for l, n in zip(self.layers, self.norms):
            x = x + l(n(x))
        return x


with torch.random.fork_rng():
    torch.manual_seed(140)
    model = Adapter(feats=11, dim=48, n_heads=6, n_kv_heads=3).eval()
inputs = torch.randn(2, 17, 11, generator=torch.Generator().manual_seed(140))
