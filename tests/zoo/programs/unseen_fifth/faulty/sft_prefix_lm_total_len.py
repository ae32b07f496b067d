"""Instruction tuning with a prefix-LM mask: the prompt is bidirectional, the answer is generated."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def prefix_mask(prompt_len, answer_len, device):
    n = prompt_len + answer_len
    keep = torch.ones(n, n, dtype=torch.bool, device=device).tril()
    keep[:, :n] = True  # fault: AS201
    return keep


class PrefixBlock(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d, d) for _ in range(4))
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.SiLU(), nn.Linear(2 * d, d))

    def forward(self, x, mask):
        y = self.n1(x)
        q, k, v = (w(y).unflatten(-1, (self.h, -1)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.wo(a.transpose(1, 2).flatten(2))
        return x + self.ff(self.n2(x))


class PrefixLM(nn.Module):
    def __init__(self, vocab=150, d=48, h=6, depth=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.pos = nn.Embedding(100, d)
        self.blocks = nn.ModuleList(PrefixBlock(d, h) for _ in range(depth))
        self.fin = nn.LayerNorm(d)
        self.head = nn.Linear(d, vocab)

    def forward(self, input_ids, prompt_len: int):
        n = input_ids.shape[1]
        mask = prefix_mask(prompt_len, n - prompt_len, input_ids.device)
        x = self.emb(input_ids) + self.pos.weight[:n]
        for b in self.blocks:
            x = b(x, mask)
        return self.head(self.fin(x))


with torch.random.fork_rng():
    torch.manual_seed(2)
    model = PrefixLM().eval()
inputs = {"input_ids": torch.randint(0, 150, (2, 18), generator=torch.Generator().manual_seed(2)), "prompt_len": 7}
expect = {"causal": True, "prefix": "prompt_len"}
