"""A frozen encoder layer with LoRA on query and value, before its first step of fine-tuning."""

import math

import torch
from torch import nn


class LoRALinear(nn.Module):
    def __init__(self, base, r=4, alpha=8):
        super().__init__()
        self.base = base
        self.lora_A = nn.Parameter(torch.empty(r, base.in_features))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, r))
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))
        self.scaling = alpha / r

    def forward(self, x):
        return self.base(x) + (x @ self.lora_A.T @ self.lora_B.T) * self.scaling


class SelfAttention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.query, self.key, self.value = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.output = nn.Linear(d, d)

    def forward(self, x, attention_mask):
        b, n, d = x.shape
        q = self.query(x).view(b, n, self.h, d // self.h).transpose(1, 2)
        k = self.key(x).view(b, n, self.h, d // self.h).transpose(1, 2)
        v = self.value(x).view(b, n, self.h, d // self.h).transpose(1, 2)
        keep = attention_mask.bool()[:, None, None, :]
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        return self.output(y.transpose(1, 2).reshape(b, n, d))


class Classifier(nn.Module):
    def __init__(self, vocab=70, d=40, h=4, layers=2, labels=3):
        super().__init__()
        self.emb, self.pos = nn.Embedding(vocab, d), nn.Embedding(30, d)
        self.attn = nn.ModuleList(SelfAttention(d, h) for _ in range(layers))
        self.norm = nn.ModuleList(nn.LayerNorm(d) for _ in range(layers))
        for p in self.parameters():
            p.requires_grad_(False)
        for layer in self.attn:
            layer.query = LoRALinear(layer.query)
            layer.value = LoRALinear(layer.value)
        self.classifier = nn.Linear(d, labels)

    def forward(self, input_ids, attention_mask):
        x = self.emb(input_ids) + self.pos.weight[: input_ids.shape[1]]
        for attn, norm in zip(self.attn, self.norm):
            x = norm(x + attn(x, attention_mask))
        return self.classifier(x[:, 0])


with torch.random.fork_rng():
    torch.manual_seed(60)
    model = Classifier().eval()

inputs = {
    "input_ids": torch.randint(0, 70, (3, 11), generator=torch.Generator().manual_seed(61)),
    "attention_mask": (torch.arange(11) < torch.tensor([[11], [8], [6]])).long(),
}
expect = {"padding": "attention_mask keep"}
