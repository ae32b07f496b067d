"""FlexAttention with a score_mod for relative distance and a causal block mask."""

import warnings

import torch
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

# at these sizes the eager path is quick enough
warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")


def causal(b, h, q_idx, kv_idx):
    return q_idx >= kv_idx


class FlexBlock(nn.Module):
    def __init__(self, dim=32, heads=2):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.wqkv = nn.Linear(dim, 3 * dim)
        self.wo = nn.Linear(dim, dim)
        self.register_buffer("slopes", torch.tensor([2.0 ** -(i + 2) for i in range(heads)]))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.wqkv(self.norm(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        slopes = self.slopes

        def alibi(score, b, h, q_idx, kv_idx):
            return score - slopes[h] * (q_idx - kv_idx)

        mask = create_block_mask(causal, None, None, n, n, device=x.device)
        y = flex_attention(q.contiguous(), k.contiguous(), v.contiguous(), score_mod=alibi, block_mask=mask)
        return x + self.wo(y.transpose(1, 2).reshape(b, n, d))


class FlexLM(nn.Module):
    def __init__(self, vocab=43, dim=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.Sequential(FlexBlock(dim), FlexBlock(dim))
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        return self.head(self.blocks(self.embed(ids)))


with torch.random.fork_rng():
    torch.manual_seed(88)
    model = FlexLM().eval().requires_grad_(False)  # inference only

inputs = torch.randint(0, 43, (2, 14), generator=torch.Generator().manual_seed(89))
expect = {"causal": True}
