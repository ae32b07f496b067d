"""Static key/value buffers inside the module, gpt-fast style."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class KVCache(nn.Module):
    def __init__(self, heads, hd, max_batch=4, max_len=48):
        super().__init__()
        self.register_buffer("k_cache", torch.zeros(max_batch, heads, max_len, hd), persistent=False)
        self.register_buffer("v_cache", torch.zeros(max_batch, heads, max_len, hd), persistent=False)

    def update(self, pos, k, v):
        b = k.size(0)
        self.k_cache[:b, :, pos] = k
        self.v_cache[:b, :, pos] = v
        return self.k_cache[:b], self.v_cache[:b]


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.kv_cache = KVCache(heads, dim // heads)

    def forward(self, x, mask, input_pos):
        b, s, d = x.shape
        q, k, v = self.wqkv(x).split(d, -1)
        q, k, v = (t.view(b, s, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        k, v = self.kv_cache.update(input_pos, k, v)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.wo(y.transpose(1, 2).contiguous().view(b, s, d))


class FastLM(nn.Module):
    def __init__(self, vocab=61, dim=28, heads=4, max_len=48):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(max_len, dim)
        self.attn = Attention(dim, heads)
        self.norm, self.out = nn.LayerNorm(dim), nn.Linear(dim, vocab)
        self.register_buffer("causal_mask", torch.tril(torch.ones(max_len, max_len, dtype=torch.bool)), persistent=False)
        self.seen = 0

    def reset(self):
        self.seen = 0
        self.attn.kv_cache.k_cache.zero_()
        self.attn.kv_cache.v_cache.zero_()

    @torch.no_grad()
    def forward(self, idx):
        input_pos = torch.arange(self.seen, self.seen + idx.size(1))
        self.seen += idx.size(1)
        x = self.tok(idx) + self.pos(input_pos)
        x = x + self.attn(x, self.causal_mask[input_pos], input_pos)
        return self.out(self.norm(x))


torch.manual_seed(12)
model = FastLM().eval()
inputs = {"idx": torch.randint(0, 61, (2, 8), generator=torch.Generator().manual_seed(7))}
expect = {"causal": True, "cache": "self"}
