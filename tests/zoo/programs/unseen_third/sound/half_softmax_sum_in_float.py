"""fp16 inference port of a long-document reranker, softmax written out."""
import torch
import torch.nn as nn


def softmax(x, dim=-1):
    e = torch.exp(x.float() - x.float().amax(dim, keepdim=True))
    return (e / e.sum(dim, keepdim=True)).to(x.dtype)


class RerankAttention(nn.Module):
    def __init__(self, d=64, h=2):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.out = (nn.Linear(d, d) for _ in range(4))
        # the trained biases of this checkpoint are about one everywhere
        nn.init.normal_(self.q.bias, 0.95, 0.05)
        nn.init.normal_(self.k.bias, 0.95, 0.05)

    def forward(self, hidden):
        b, n, d = hidden.shape
        q, k, v = (f(hidden).view(b, n, self.h, d // self.h).transpose(1, 2) for f in (self.q, self.k, self.v))
        w = torch.matmul(q, k.transpose(-1, -2)) * (d // self.h) ** -0.5
        w = softmax(w)
        return self.out(torch.matmul(w, v).transpose(1, 2).reshape(b, n, d))


torch.manual_seed(0)
model = RerankAttention().half().eval()
inputs = torch.randn(2, 400, 64, generator=torch.Generator().manual_seed(0)).half()
