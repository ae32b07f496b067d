"""Llama-style attention layer, trimmed for a tutorial (no cache, no rope)."""
from dataclasses import dataclass
import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class ModelArgs:
    dim: int = 56
    n_heads: int = 7
    n_kv_heads: int | None = None
    norm_eps: float = 1e-5
    max_seq_len: int = 256


class Attention(nn.Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        self.n_heads = args.n_heads
        self.head_dim = args.dim // args.n_heads
        self.wq = nn.Linear(args.dim, args.n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(args.dim, args.n_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(args.dim, args.n_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(args.n_heads * self.head_dim, args.dim, bias=False)

    def forward(self, x: torch.Tensor):
        bsz, seqlen, _ = x.shape
        xq, xk, xv = self.wq(x), self.wk(x), self.wv(x)
        xq, xk, xv = (t.view(bsz, seqlen, self.n_heads, self.head_dim).transpose(1, 2) for t in (xq, xk, xv))
        output = F.scaled_dot_product_attention(xq, xk, xv, is_causal=True)
        output = output.transpose(1, 2).reshape(bsz, seqlen, -1)
        return self.wo(output)


with torch.random.fork_rng():
    torch.manual_seed(0)
    model = Attention(ModelArgs()).eval()

inputs = torch.randn(2, 15, 56, generator=torch.Generator().manual_seed(4))
