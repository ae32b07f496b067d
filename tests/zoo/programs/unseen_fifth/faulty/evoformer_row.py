"""MSA row attention with pair bias, a cut-down Evoformer."""
import torch
import torch.nn as nn


class MSARowAttentionWithPairBias(nn.Module):
    def __init__(self, c_m=24, c_z=12, c=8, heads=3):
        super().__init__()
        self.heads, self.c = heads, c
        self.norm_m, self.norm_z = nn.LayerNorm(c_m), nn.LayerNorm(c_z)
        self.linear_q = nn.Linear(c_m, c * heads, bias=False)
        self.linear_k = nn.Linear(c_m, c * heads, bias=False)
        self.linear_v = nn.Linear(c_m, c * heads, bias=False)
        self.linear_b = nn.Linear(c_z, heads, bias=False)
        self.linear_g = nn.Linear(c_m, c * heads)
        self.linear_o = nn.Linear(c * heads, c_m)

    def forward(self, m, z, msa_mask):
        # m [b, s, r, c_m], z [b, r, r, c_z], msa_mask [b, s, r] with 1 for real residues
        m = self.norm_m(m)
        shape = (*m.shape[:-1], self.heads, self.c)
        q = self.linear_q(m).view(shape) * self.c ** -0.5
        k = self.linear_k(m).view(shape)
        v = self.linear_v(m).view(shape)
        g = torch.sigmoid(self.linear_g(m)).view(shape)
        bias = self.linear_b(self.norm_z(z)).permute(0, 3, 1, 2).unsqueeze(1)
        mask_bias = msa_mask[:, :, None, None, :]  # fault: AS207
        a = torch.einsum("bsqhc,bskhc->bshqk", q, k) + bias + mask_bias  # fault: AS207
        a = torch.softmax(a, dim=-1)
        o = torch.einsum("bshqk,bskhc->bsqhc", a, v) * g
        return self.linear_o(o.flatten(-2))


class MiniEvoformer(nn.Module):
    def __init__(self, c_m=24, c_z=12, n_types=22):
        super().__init__()
        self.emb = nn.Embedding(n_types, c_m)
        self.left, self.right = nn.Embedding(n_types, c_z), nn.Embedding(n_types, c_z)
        self.rel = nn.Embedding(65, c_z)
        self.row = MSARowAttentionWithPairBias(c_m, c_z)
        self.transition = nn.Sequential(nn.LayerNorm(c_m), nn.Linear(c_m, 2 * c_m), nn.ReLU(), nn.Linear(2 * c_m, c_m))

    def forward(self, msa, msa_mask):
        target = msa[:, 0]
        i = torch.arange(msa.size(-1), device=msa.device)
        z = self.left(target)[:, :, None] + self.right(target)[:, None] + self.rel((i[:, None] - i).clamp(-32, 32) + 32)
        m = self.emb(msa)
        m = m + self.row(m, z, msa_mask)
        return m + self.transition(m)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(202)
        return MiniEvoformer().eval()


def inputs():
    g = torch.Generator().manual_seed(203)
    msa = torch.randint(0, 22, (2, 4, 9), generator=g)
    mask = torch.ones(2, 4, 9)
    mask[1, :, 6:] = 0
    return {"msa": msa, "msa_mask": mask}
