"""Self-attention layer on top of F.scaled_dot_product_attention."""
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention


class SelfAttention(nn.Module):
    def __init__(self, embed_dim: int = 60, num_heads: int = 5, bias: bool = True):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.q_proj = nn.Linear(embed_dim, 2 * embed_dim, bias=bias)
        self.kv_proj = nn.Linear(embed_dim, 2 * embed_dim, bias=bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        bsz, seqlen, dim = x.shape
        q = self.q_proj(x)
        k, v = self.kv_proj(x).chunk(2, dim=-1)
        q = q.view(bsz, seqlen, self.num_heads, -1).transpose(1, 2)
        k = k.view(bsz, seqlen, self.num_heads, self.head_dim).transpose(1, 2)
        v = v.view(bsz, seqlen, self.num_heads, self.head_dim).transpose(1, 2)
        out = scaled_dot_product_attention(q, k, v)  # fault: AS105
        out = out.transpose(1, 2).reshape(bsz, seqlen, dim)
        return self.out_proj(out)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(12)
        return SelfAttention().eval()


def inputs():
    return torch.randn(2, 19, 60, generator=torch.Generator().manual_seed(12))
