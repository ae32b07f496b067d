"""Symbolic music decoder, note tokens in, next note out."""
import torch
from torch import nn


class NoteDecoder(nn.Module):
    def __init__(self, n_notes=88, dim=32, heads=4, layers=2):
        super().__init__()
        self.note = nn.Embedding(n_notes, dim)
        self.time = nn.Embedding(128, dim)
        self.layers = nn.ModuleList(nn.MultiheadAttention(dim, heads, batch_first=True) for _ in range(layers))
        self.out = nn.Linear(dim, n_notes)

    def forward(self, notes):
        n = notes.size(1)
        blocked = torch.ones(n, n, device=notes.device).triu(1) * -1e9
        x = self.note(notes) + self.time.weight[:n]
        for att in self.layers:
            x = x + att(x, x, x, attn_mask=blocked, need_weights=False)[0]
        return self.out(x)


def model():
    torch.manual_seed(3)
    return NoteDecoder().eval()
