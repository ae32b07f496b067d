"""Action-chunking policy for a two-arm robot, grouped-query attention to save memory."""
import torch
import torch.nn as nn


class GQA(nn.Module):
    def __init__(self, dim, n_q, n_kv):
        super().__init__()
        assert n_q % n_kv == 0
        self.n_q, self.n_kv, self.hd = n_q, n_kv, dim // n_q
        self.wq = nn.Linear(dim, n_q * self.hd, bias=False)
        self.wk = nn.Linear(dim, n_kv * self.hd, bias=False)
        self.wv = nn.Linear(dim, n_kv * self.hd, bias=False)
        self.wo = nn.Linear(n_q * self.hd, dim, bias=False)

    def forward(self, x, mem=None):
        mem = x if mem is None else mem
        B, N, _ = x.shape
        M = mem.shape[1]
        q = self.wq(x).view(B, N, self.n_q, self.hd).transpose(1, 2)
        k = self.wk(mem).view(B, M, self.n_kv, self.hd).transpose(1, 2)
        v = self.wv(mem).view(B, M, self.n_kv, self.hd).transpose(1, 2)
        rep = self.n_q // self.n_kv
        k = k.repeat_interleave(rep, dim=1)
        v = v.repeat_interleave(rep, dim=1)
        att = ((q * self.hd ** -0.5) @ k.transpose(-1, -2)).softmax(-1)
        return self.wo((att @ v).transpose(1, 2).reshape(B, N, -1))


class ChunkPolicy(nn.Module):
    def __init__(self, joint=14, img_feat=20, dim=48, chunk=6, n_q=6, n_kv=2):
        super().__init__()
        self.joint = nn.Linear(joint, dim)
        self.img = nn.Linear(img_feat, dim)
        self.where = nn.Parameter(torch.randn(1, 32, dim) * .05)
        self.slots = nn.Parameter(torch.randn(1, chunk, dim) * .05)
        self.enc, self.dec, self.cross = GQA(dim, n_q, n_kv), GQA(dim, n_q, n_kv), GQA(dim, n_q, n_kv)
        self.ln = nn.ModuleList([nn.LayerNorm(dim) for _ in range(4)])
        self.act = nn.Linear(dim, joint)

    def forward(self, qpos, feats):
        z = torch.cat([self.joint(qpos)[:, None], self.img(feats)], 1)
        z = z + self.where[:, :z.shape[1]]
        z = z + self.enc(self.ln[0](z))
        a = self.slots.expand(z.shape[0], -1, -1)
        a = a + self.dec(self.ln[1](a))
        a = a + self.cross(self.ln[2](a), z)
        return self.act(self.ln[3](a))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(8)
        return ChunkPolicy().eval()


def inputs():
    g = torch.Generator().manual_seed(80)
    return {"qpos": torch.randn(2, 14, generator=g), "feats": torch.randn(2, 9, 20, generator=g)}
