"""GPT-2 for batched generation: prompts padded on the left, positions counted from the mask."""

import torch
from torch import nn


class Conv1D(nn.Module):
    def __init__(self, nf, nx):
        super().__init__()
        self.nf = nf
        self.weight = nn.Parameter(torch.randn(nx, nf) * 0.02)
        self.bias = nn.Parameter(torch.zeros(nf))

    def forward(self, x):
        out = x.size()[:-1] + (self.nf,)
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(out)


class GPT2Attention(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.split_size = embed_dim
        self.c_attn = Conv1D(3 * embed_dim, embed_dim)
        self.c_proj = Conv1D(embed_dim, embed_dim)

    def forward(self, x, mask):
        q, k, v = self.c_attn(x).split(self.split_size, dim=2)
        shape = (*q.shape[:-1], self.num_heads, -1)
        q, k, v = q.view(shape).transpose(1, 2), k.view(shape).transpose(1, 2), v.view(shape).transpose(1, 2)
        w = torch.matmul(q, k.transpose(-1, -2)) / (v.size(-1) ** 0.5)
        w = torch.where(mask, w, torch.full([], torch.finfo(w.dtype).min, device=w.device))
        w = nn.functional.softmax(w, dim=-1)
        return self.c_proj(torch.matmul(w, v).transpose(1, 2).reshape(x.shape))


class GPT2Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn = GPT2Attention(d, h)
        self.c_fc, self.c_proj = Conv1D(4 * d, d), Conv1D(d, 4 * d)

    def forward(self, x, mask):
        x = x + self.attn(self.ln_1(x), mask)
        return x + self.c_proj(nn.functional.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class GPT2LMHeadModel(nn.Module):
    def __init__(self, vocab_size=84, n_positions=32, d=40, h=5, layers=2):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab_size, d), nn.Embedding(n_positions, d)
        nn.init.normal_(self.wte.weight, std=0.02)
        nn.init.normal_(self.wpe.weight, std=0.02)
        self.h = nn.ModuleList([GPT2Block(d, h) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(d)

    def forward(self, input_ids, attention_mask):
        position_ids = attention_mask.long().cumsum(-1) - 1
        position_ids = position_ids.masked_fill(attention_mask == 0, 1)
        t = input_ids.shape[1]
        causal = torch.ones(t, t, dtype=torch.bool, device=input_ids.device).tril()
        mask = causal[None, None] & attention_mask[:, None, None, :].bool()
        x = self.wte(input_ids) + self.wpe(position_ids)
        for block in self.h:
            x = block(x, mask)
        return nn.functional.linear(self.ln_f(x), self.wte.weight)


with torch.random.fork_rng():
    torch.manual_seed(124)
    model = GPT2LMHeadModel().eval()

inputs = {
    "input_ids": torch.randint(0, 84, (3, 12), generator=torch.Generator().manual_seed(1)),
    "attention_mask": (torch.arange(12)[None] >= torch.tensor([0, 3, 7])[:, None]).long(),
}
expect = {"causal": True, "padding": "attention_mask keep"}
