"""Attention in a speech emotion model, padding removed from the weights."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class EmotionAttention(nn.Module):
    def __init__(self, in_dim=26, n_head=2, head_dim=12):
        super().__init__()
        self.n_head, self.head_dim = n_head, head_dim
        self.q = nn.Linear(in_dim, n_head * head_dim)
        self.k = nn.Linear(in_dim, n_head * head_dim)
        self.v = nn.Linear(in_dim, n_head * head_dim)
        self.o = nn.Linear(n_head * head_dim, in_dim)

    def forward(self, feats, frame_mask):
        B, T, _ = feats.shape
        q, k, v = (m(feats).view(B, T, self.n_head, self.head_dim).permute(0, 2, 1, 3) for m in (self.q, self.k, self.v))
        e = q.matmul(k.transpose(-1, -2)) / self.head_dim**0.5
        a = F.softmax(e, dim=-1)
        a = a * frame_mask[:, None, None, :].float()  # fault: AS204
        return self.o(a.matmul(v).permute(0, 2, 1, 3).reshape(B, T, -1))


torch.manual_seed(0)
model = EmotionAttention().eval()
inputs = {
    "feats": torch.randn(2, 11, 26, generator=torch.Generator().manual_seed(0)),
    "frame_mask": torch.arange(11)[None] < torch.tensor([[11], [6]]),
}
# also: AS202
