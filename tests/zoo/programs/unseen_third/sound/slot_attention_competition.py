"""Slot attention: slots compete for the inputs (softmax over slots, then weighted mean)."""
import torch
import torch.nn as nn


class SlotAttention(nn.Module):
    def __init__(self, num_slots=4, dim=24, iters=3, eps=1e-8):
        super().__init__()
        self.iters, self.eps, self.scale = iters, eps, dim**-0.5
        self.slots_init = nn.Parameter(torch.randn(1, num_slots, dim))
        self.to_q, self.to_k, self.to_v = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.gru = nn.GRUCell(dim, dim)
        self.norm_input, self.norm_slots = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, inputs):
        b, n, d = inputs.shape
        inputs = self.norm_input(inputs)
        k, v = self.to_k(inputs), self.to_v(inputs)
        slots = self.slots_init.expand(b, -1, -1)
        for _ in range(self.iters):
            prev = slots
            q = self.to_q(self.norm_slots(slots))
            dots = torch.einsum("bid,bjd->bij", q, k) * self.scale
            attn = dots.softmax(dim=1) + self.eps
            attn = attn / attn.sum(dim=-1, keepdim=True)
            updates = torch.einsum("bjd,bij->bid", v, attn)
            slots = self.gru(updates.reshape(-1, d), prev.reshape(-1, d)).reshape(b, -1, d)
        return slots


torch.manual_seed(0)
model = SlotAttention().eval()
inputs = torch.randn(2, 10, 24, generator=torch.Generator().manual_seed(0))
