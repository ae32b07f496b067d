"""External language model for CTC rescoring; float padding mask kept in the batch dict."""
# also: AS202
import torch
import torch.nn as nn


class RescoreLayer(nn.Module):
    def __init__(self, adim, aheads):
        super().__init__()
        self.d_k = adim // aheads
        self.h = aheads
        self.linear_q = nn.Linear(adim, adim)
        self.linear_k = nn.Linear(adim, adim)
        self.linear_v = nn.Linear(adim, adim)
        self.linear_out = nn.Linear(adim, adim)

    def forward(self, x, mask):
        n_batch = x.size(0)
        q = self.linear_q(x).view(n_batch, -1, self.h, self.d_k).transpose(1, 2)
        k = self.linear_k(x).view(n_batch, -1, self.h, self.d_k).transpose(1, 2)
        v = self.linear_v(x).view(n_batch, -1, self.h, self.d_k).transpose(1, 2)
        attn = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])  # fault: AS207
        return self.linear_out(attn.transpose(1, 2).reshape(n_batch, -1, self.h * self.d_k))


class RescoreEncoder(nn.Module):
    def __init__(self, odim=60, adim=32, aheads=2, elayers=2):
        super().__init__()
        self.embed = nn.Embedding(odim, adim)
        self.pos = nn.Parameter(torch.randn(64, adim) * 0.1)
        self.encoders = nn.ModuleList([RescoreLayer(adim, aheads) for _ in range(elayers)])
        self.after_norm = nn.LayerNorm(adim)
        self.out = nn.Linear(adim, odim)

    def forward(self, batch):
        ys, ymask = batch["ys"], batch["ys_mask"]
        h = self.embed(ys) + self.pos[: ys.size(1)]
        for enc in self.encoders:
            h = h + enc(h, ymask)
        return self.out(self.after_norm(h))


with torch.random.fork_rng():
    torch.manual_seed(60)
    model = RescoreEncoder().eval()


def inputs():
    g = torch.Generator().manual_seed(61)
    ys = torch.randint(1, 60, (3, 11), generator=g)
    ys_mask = torch.ones(3, 11)
    ys_mask[0, 8:] = 0.0
    ys_mask[2, 5:] = 0.0
    return ({"ys": ys * ys_mask.long(), "ys_mask": ys_mask},)
