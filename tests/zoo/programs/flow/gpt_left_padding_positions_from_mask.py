"""GPT for batched generation: prompts are padded on the left, attention_mask says where."""

import torch
from torch import nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head = n_head
        self.ln_1 = nn.LayerNorm(n_embd)
        self.ln_2 = nn.LayerNorm(n_embd)
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.mlp = nn.Sequential(
            nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd)
        )

    def forward(self, x, allowed):
        B, T, C = x.shape
        q, k, v = self.c_attn(self.ln_1(x)).split(C, dim=-1)
        q, k, v = (t.view(B, T, self.n_head, -1).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        x = x + self.c_proj(y.transpose(1, 2).reshape(B, T, C))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, vocab=60, ctx=64, n_embd=32, n_head=4, n_layer=2):
        super().__init__()
        self.wte = nn.Embedding(vocab, n_embd)
        self.wpe = nn.Embedding(ctx, n_embd)
        self.h = nn.ModuleList(Block(n_embd, n_head) for _ in range(n_layer))
        self.ln_f = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, vocab, bias=False)

    def forward(self, input_ids, attention_mask):
        T = input_ids.shape[1]
        position_ids = (attention_mask.cumsum(dim=1) - 1).clamp(min=0)
        x = self.wte(input_ids) + self.wpe(position_ids)
        keep = attention_mask.bool()[:, None, None, :]
        causal = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()
        itself = torch.eye(T, dtype=torch.bool, device=x.device)
        allowed = (keep & causal) | itself
        for block in self.h:
            x = block(x, allowed)
        return self.lm_head(self.ln_f(x))


def make_inputs():
    gen = torch.Generator().manual_seed(10)
    ids = torch.randint(1, 60, (3, 14), generator=gen)
    mask = torch.ones(3, 14, dtype=torch.long)
    mask[0, :5] = 0
    mask[2, :2] = 0
    return {"input_ids": ids * mask, "attention_mask": mask}


with torch.random.fork_rng():
    torch.manual_seed(10)
    model = GPT().eval()

inputs = make_inputs
expect = {"causal": True, "padding": "attention_mask keep"}
