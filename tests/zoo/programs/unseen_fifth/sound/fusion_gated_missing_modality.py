"""Clinical fusion: notes, labs and image tokens; a missing modality is masked, patients always have labs."""
import torch
import torch.nn as nn


class GatedFusion(nn.Module):
    def __init__(self, d=32, heads=4):
        super().__init__()
        self.labs, self.img, self.note = nn.Linear(6, d), nn.Linear(12, d), nn.Linear(9, d)
        self.kind = nn.Embedding(3, d)
        self.mha = nn.MultiheadAttention(d, heads, batch_first=True, add_zero_attn=True)
        self.gate = nn.Linear(2 * d, d)
        self.norm = nn.LayerNorm(d)
        self.risk = nn.Linear(d, 1)

    def forward(self, labs, img, note, has_img, has_note):
        parts = [self.labs(labs), self.img(img), self.note(note)]
        x = torch.cat([p + self.kind.weight[i] for i, p in enumerate(parts)], 1)
        present = torch.cat([torch.ones(labs.shape[:2], dtype=torch.bool),
                             has_img[:, None].expand(-1, img.shape[1]),
                             has_note[:, None].expand(-1, note.shape[1])], 1)
        y, _ = self.mha(x, x, x, key_padding_mask=~present, need_weights=False)
        g = torch.sigmoid(self.gate(torch.cat([x, y], -1)))
        x = self.norm(g * y + (1 - g) * x)
        w = present.unsqueeze(-1).float()
        return self.risk((x * w).sum(1) / w.sum(1)).squeeze(-1)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(14)
        return GatedFusion().eval()


def inputs():
    g = torch.Generator().manual_seed(15)
    return {"labs": torch.randn(3, 4, 6, generator=g), "img": torch.randn(3, 5, 12, generator=g),
            "note": torch.randn(3, 7, 9, generator=g), "has_img": torch.tensor([True, False, True]),
            "has_note": torch.tensor([True, True, False])}
