"""GPT for batched generation: causal and left-padding masks are combined as boolean."""
import torch
import torch.nn as nn


class Attn(nn.Module):
    def __init__(self, d, nh):
        super().__init__()
        self.nh = nh
        self.in_proj = nn.Linear(d, 3 * d)
        self.out_proj = nn.Linear(d, d)

    def forward(self, x, allowed):
        B, L, D = x.shape
        q, k, v = self.in_proj(x).reshape(B, L, 3, self.nh, D // self.nh).permute(2, 0, 3, 1, 4)
        att = (q * (D // self.nh) ** -0.5) @ k.transpose(-1, -2)
        att = att.masked_fill(~allowed, float("-inf"))
        att = att.softmax(-1)
        return self.out_proj((att @ v).transpose(1, 2).reshape(B, L, D))


class BatchGPT(nn.Module):
    def __init__(self, V=101, d=36, nh=4, n=2):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(V, d), nn.Embedding(50, d)
        self.att = nn.ModuleList(Attn(d, nh) for _ in range(n))
        self.ln = nn.ModuleList(nn.LayerNorm(d) for _ in range(n))
        self.head = nn.Linear(d, V)

    def forward(self, input_ids, attention_mask):
        L = input_ids.shape[1]
        causal = torch.ones(L, L, dtype=torch.bool, device=input_ids.device).tril()
        allowed = causal[None, None] & attention_mask[:, None, None, :].bool()
        allowed = allowed | torch.eye(L, dtype=torch.bool, device=input_ids.device)
        pos = (attention_mask.cumsum(-1) - 1).clamp(min=0)
        x = self.wte(input_ids) + self.wpe(pos)
        for ln, att in zip(self.ln, self.att):
            x = x + att(ln(x), allowed)
        return self.head(x)


torch.manual_seed(31)
model = BatchGPT().eval()
_m = torch.ones(3, 10, dtype=torch.long)
_m[1, :4] = 0
_m[2, :2] = 0
inputs = {"input_ids": torch.randint(1, 101, (3, 10), generator=torch.Generator().manual_seed(31)) * _m, "attention_mask": _m}
