"""Decoder block ported from flash_attn_func to torch SDPA."""
import torch
import torch.nn as nn
import torch.nn.functional as F

# from flash_attn import flash_attn_func


def attention_core(q, k, v, dropout_p=0.0, causal=True):
    # q, k, v: [batch, seqlen, nheads, headdim]
    return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout_p, is_causal=causal)  # fault: AS106|AS103


class DecoderBlock(nn.Module):
    def __init__(self, hidden=60, nheads=6, mlp_ratio=3):
        super().__init__()
        self.nheads = nheads
        self.ln_1, self.ln_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.c_attn = nn.Linear(hidden, 3 * hidden)
        self.c_proj = nn.Linear(hidden, hidden)
        self.mlp = nn.Sequential(nn.Linear(hidden, mlp_ratio * hidden), nn.GELU(), nn.Linear(mlp_ratio * hidden, hidden))

    def forward(self, x):
        b, s, h = x.shape
        qkv = self.c_attn(self.ln_1(x)).view(b, s, 3, self.nheads, h // self.nheads)
        q, k, v = qkv.unbind(dim=2)
        y = attention_core(q, k, v).reshape(b, s, h)
        x = x + self.c_proj(y)
        return x + self.mlp(self.ln_2(x))


class StackedDecoder(nn.Module):
    def __init__(self, vocab=97, hidden=60, depth=2):
        super().__init__()
        self.wte = nn.Embedding(vocab, hidden)
        self.wpe = nn.Embedding(64, hidden)
        self.h = nn.ModuleList([DecoderBlock(hidden) for _ in range(depth)])
        self.head = nn.Linear(hidden, vocab, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, idx):
        x = self.wte(idx) + self.wpe.weight[: idx.shape[1]]
        for blk in self.h:
            x = blk(x)
        return self.head(x)


torch.manual_seed(99)
model = StackedDecoder().eval()
inputs = torch.randint(0, 97, (2, 14), generator=torch.Generator().manual_seed(5))
