"""WeNet-like chunk mask: full inside the chunk, all chunks to the left."""
import torch
import torch.nn as nn


def subsequent_chunk_mask(size, chunk_size):
    ret = torch.zeros(size, size, dtype=torch.bool)
    for i in range(size):
        ending = min((i // chunk_size + 1) * chunk_size, size)
        ret[i, 0:ending] = True
    return ret


class ConformerAtt(nn.Module):
    def __init__(self, d=36, h=4, chunk=4):
        super().__init__()
        self.h, self.chunk = h, chunk
        self.linear_q, self.linear_k, self.linear_v, self.linear_out = (nn.Linear(d, d) for _ in range(4))
        self.ln = nn.LayerNorm(d)

    def forward(self, xs, xs_lens):
        b, t, d = xs.shape
        y = self.ln(xs)
        q, k, v = (f(y).view(b, t, self.h, -1).transpose(1, 2) for f in (self.linear_q, self.linear_k, self.linear_v))
        valid = torch.arange(t)[None] < xs_lens[:, None]
        mask = (valid[:, None, :] & subsequent_chunk_mask(t, self.chunk)).unsqueeze(1)
        scores = torch.matmul(q, k.transpose(-2, -1)) / (d // self.h) ** 0.5
        attn = torch.softmax(scores.masked_fill(~mask, -float("inf")), dim=-1).masked_fill(~mask, 0.0)
        return xs + self.linear_out((attn @ v).transpose(1, 2).reshape(b, t, d))


torch.manual_seed(0)
model = ConformerAtt().eval()
inputs = {"xs": torch.randn(2, 14, 36, generator=torch.Generator().manual_seed(0)), "xs_lens": torch.tensor([14, 9])}
expect = {"padding": "xs_lens lengths"}
