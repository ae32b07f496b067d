"""Document classifier whose attention is plotted afterwards."""
import torch
import torch.nn as nn


class HAN(nn.Module):
    def __init__(self, vocab=57, d=30, heads=3, classes=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.pos = nn.Parameter(torch.randn(40, d) * 0.1)
        self.heads = heads
        self.wqkv = nn.Linear(d, 3 * d)
        self.fc = nn.Linear(d, classes)

    def forward(self, docs):
        x = self.embed(docs) + self.pos[: docs.shape[1]]
        b, n, d = x.shape
        q, k, v = self.wqkv(x).reshape(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attn = torch.softmax(torch.einsum("bhid,bhjd->bhij", q, k) / (d / self.heads) ** 0.5, dim=-1)
        pooled = torch.einsum("bhij,bhjd->bihd", attn, v).reshape(b, n, d).mean(1)
        attention_weights = torch.softmax(attn, dim=-1)  # fault: AS803
        return {"logits": self.fc(pooled), "attention_weights": attention_weights}  # fault: AS803


torch.manual_seed(0)
model = HAN().eval()
