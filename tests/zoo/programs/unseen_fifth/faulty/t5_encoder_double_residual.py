"""T5-like encoder layer: sublayers add their own residual, the stack calls them in turn."""
import torch
from torch import nn


class SubLayerSelfAttention(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        self.heads = heads
        self.layer_norm = nn.RMSNorm(d_model, eps=1e-6)
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))
        nn.init.normal_(self.q.weight, std=(d_model * d_model // heads) ** -0.5)
        self.rel = nn.Embedding(32, heads)

    def forward(self, hidden):
        b, n, _ = hidden.shape
        y = self.layer_norm(hidden)
        q, k, v = (f(y).view(b, n, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        r = torch.arange(n, device=hidden.device)
        bias = self.rel((r[None, :] - r[:, None] + 16).clamp(0, 31)).permute(2, 0, 1)[None]
        p = (q @ k.transpose(3, 2) + bias).softmax(-1)
        return hidden + self.o((p @ v).transpose(1, 2).reshape(b, n, -1))


class SubLayerFF(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.layer_norm = nn.RMSNorm(d_model, eps=1e-6)
        self.wi, self.wo = nn.Linear(d_model, d_ff, bias=False), nn.Linear(d_ff, d_model, bias=False)

    def forward(self, hidden):
        return hidden + self.wo(torch.relu(self.wi(self.layer_norm(hidden))))


class T5Stack(nn.Module):
    def __init__(self, vocab=140, d_model=64, heads=4, d_ff=128, n=2):
        super().__init__()
        self.shared = nn.Embedding(vocab, d_model)
        self.block = nn.ModuleList([nn.ModuleList([SubLayerSelfAttention(d_model, heads), SubLayerFF(d_model, d_ff)])
                                    for _ in range(n)])
        self.final_layer_norm = nn.RMSNorm(d_model, eps=1e-6)

    def forward(self, input_ids):
        h = self.shared(input_ids)
        for att, ff in self.block:
            h = h + att(h)  # fault: AS904
            h = ff(h)
        return self.final_layer_norm(h)


torch.manual_seed(9040)
model = T5Stack().eval()
inputs = (torch.randint(0, 140, (2, 15), generator=torch.Generator().manual_seed(9040)),)
