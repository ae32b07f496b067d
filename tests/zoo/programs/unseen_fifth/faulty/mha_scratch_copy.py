"""Multi-head attention from scratch, checked against the slides."""
import torch
import torch.nn as nn


class MHA(nn.Module):
    def __init__(self, d_model=60, n_head=6):
        super().__init__()
        self.n_head = n_head
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_concat = nn.Linear(d_model, d_model)

    def forward(self, q, k, v):
        q, k, v = self.w_q(q), self.w_q(k), self.w_v(v)  # fault: AS903
        q, k, v = self.split(q), self.split(k), self.split(v)
        score = (q @ k.transpose(2, 3)) / q.size(3) ** 0.5
        out = score.softmax(dim=-1) @ v
        return self.w_concat(self.concat(out))

    def split(self, tensor):
        batch_size, length, d_model = tensor.size()
        return tensor.view(batch_size, length, self.n_head, d_model // self.n_head).transpose(1, 2)

    def concat(self, tensor):
        batch_size, head, length, d_tensor = tensor.size()
        return tensor.transpose(1, 2).contiguous().view(batch_size, length, head * d_tensor)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(111)
        return MHA().eval()


def inputs():
    x = torch.randn(3, 7, 60, generator=torch.Generator().manual_seed(112))
    return x, x, x
