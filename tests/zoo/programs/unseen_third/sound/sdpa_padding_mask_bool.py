"""BERT-like block on scaled_dot_product_attention."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Attn(nn.Module):
    def __init__(self, n_embd=42, n_head=6):
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x, attention_mask):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, 2)
        shape = (B, T, self.n_head, C // self.n_head)
        q, k, v = q.view(shape).transpose(1, 2), k.view(shape).transpose(1, 2), v.view(shape).transpose(1, 2)
        mask = attention_mask[:, None, None, :].expand(B, 1, T, T)
        mask = mask.bool()
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.c_proj(y.transpose(1, 2).reshape(B, T, C))


torch.manual_seed(0)
model = Attn().eval()
inputs = {
    "x": torch.randn(2, 9, 42, generator=torch.Generator().manual_seed(1)),
    "attention_mask": torch.tensor([[1] * 9, [1] * 5 + [0] * 4]),
}
