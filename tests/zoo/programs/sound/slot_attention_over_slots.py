"""Slot Attention: the softmax runs over the slots, so that slots compete for every input."""

import torch
import torch.nn.functional as F
from torch import nn


class SlotAttention(nn.Module):
    def __init__(self, num_slots=5, dim=24, iters=3, eps=1e-8, hidden_dim=48):
        super().__init__()
        self.iters, self.eps, self.scale = iters, eps, dim**-0.5
        self.slots = nn.Parameter(torch.randn(1, num_slots, dim))
        self.to_q, self.to_k, self.to_v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden_dim), nn.ReLU(inplace=True), nn.Linear(hidden_dim, dim))
        self.norm_input, self.norm_slots, self.norm_pre_ff = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, inputs):
        b, n, d = inputs.shape
        slots = self.slots.expand(b, -1, -1)
        inputs = self.norm_input(inputs)
        k, v = self.to_k(inputs), self.to_v(inputs)
        for _ in range(self.iters):
            slots_prev = slots
            q = self.to_q(self.norm_slots(slots))
            dots = torch.einsum("bid,bjd->bij", q, k) * self.scale
            # competition between slots, then a weighted mean over the inputs
            attn = dots.softmax(dim=1) + self.eps
            attn = attn / attn.sum(dim=-1, keepdim=True)
            updates = torch.einsum("bjd,bij->bid", v, attn)
            slots = self.gru(updates.reshape(-1, d), slots_prev.reshape(-1, d)).reshape(b, -1, d)
            slots = slots + self.mlp(self.norm_pre_ff(slots))
        return slots


class ObjectEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 24, 4, stride=4)
        self.pos = nn.Parameter(torch.randn(1, 24, 4, 6) * 0.1)
        self.slot_attention = SlotAttention()
        self.decode = nn.Linear(24, 9)

    def forward(self, image):
        x = F.relu(self.conv(image)) + self.pos
        return self.decode(self.slot_attention(x.flatten(2).transpose(1, 2)))


with torch.random.fork_rng():
    torch.manual_seed(65)
    model = ObjectEncoder().eval()

inputs = torch.randn(2, 3, 16, 24, generator=torch.Generator().manual_seed(66))
# note: AS101
