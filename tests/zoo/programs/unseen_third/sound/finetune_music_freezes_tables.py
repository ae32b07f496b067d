"""Fine-tune a melody classifier: build, freeze the pitch and musical-key tables, train the rest."""
import torch
import torch.nn as nn


class Attn(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.query, self.key, self.value, self.dense = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)

    def split(self, t):
        return t.unflatten(-1, (self.h, -1)).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        p = torch.softmax(q @ k.transpose(-1, -2) * q.size(-1) ** -0.5, -1)
        return self.dense((p @ v).transpose(1, 2).flatten(2))


class Classifier(nn.Module):
    def __init__(self, vocab=90, d=32, h=4, n=2, classes=3):
        super().__init__()
        self.pitch_embedding = nn.Embedding(vocab, d)
        self.key_embedding = nn.Embedding(24, d)
        self.position_embedding = nn.Embedding(50, d)
        self.attention = nn.ModuleList(Attn(d, h) for _ in range(n))
        self.norm_a = nn.ModuleList(nn.LayerNorm(d) for _ in range(n))
        self.mlp = nn.ModuleList(nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 64), nn.GELU(), nn.Linear(64, d)) for _ in range(n))
        self.head = nn.Linear(d, classes)

    def forward(self, ids, key_id):
        x = self.pitch_embedding(ids) + self.key_embedding(key_id)[:, None] + self.position_embedding.weight[: ids.shape[1]]
        for a, n, m in zip(self.attention, self.norm_a, self.mlp):
            x = x + a(n(x))
            x = x + m(x)
        return self.head(x.mean(1))


def freeze(net, what=("pitch_embedding", "key_embedding")):
    for name, p in net.named_parameters():
        if any(w in name for w in what):
            p.requires_grad_(False)


torch.manual_seed(2)
model = Classifier()
freeze(model)
inputs = (torch.randint(0, 90, (3, 12), generator=torch.Generator().manual_seed(2)), torch.tensor([3, 17, 0]))
