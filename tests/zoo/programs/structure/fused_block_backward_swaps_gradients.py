"""A memory-saving function for one head: its backward hands back the gradients of k and v swapped."""

import torch
import torch.nn.functional as F


class Recomputed(torch.autograd.Function):
    """Keeps q, k and v alone, and computes the rest again on the way back."""

    @staticmethod
    def forward(ctx, query, key, value):
        ctx.save_for_backward(query, key, value)
        return F.softmax(query @ key.mT * query.shape[-1] ** -0.5, dim=-1) @ value

    @staticmethod
    def backward(ctx, grad_output):  # fault: AS801
        with torch.enable_grad():
            query, key, value = (t.detach().requires_grad_() for t in ctx.saved_tensors)
            out = F.softmax(query @ key.mT * query.shape[-1] ** -0.5, dim=-1) @ value
        gq, gk, gv = torch.autograd.grad(out, (query, key, value), grad_output)
        return gq, gv, gk  # fault: AS801


class Net(torch.nn.Module):
    def __init__(self, width=20):
        super().__init__()
        self.inp = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)

    def forward(self, x):
        return x + self.out(Recomputed.apply(*self.inp(x).chunk(3, dim=-1)))


model = Net().eval()
inputs = torch.randn(2, 9, 20)
