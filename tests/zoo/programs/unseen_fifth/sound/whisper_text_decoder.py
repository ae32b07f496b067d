"""Text decoder of a small speech recogniser; K and V of the audio are packed in one projection."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CrossAttn(nn.Module):
    def __init__(self, n_state, n_head, n_audio):
        super().__init__()
        self.n_head = n_head
        self.query = nn.Linear(n_state, n_state)
        self.kv = nn.Linear(n_audio, n_state * 2, bias=False)
        self.out = nn.Linear(n_state, n_state)

    def forward(self, x, xa):
        b, t, c = x.shape
        s = xa.shape[1]
        q = self.query(x).view(b, t, self.n_head, -1).permute(0, 2, 1, 3)
        k, v = self.kv(xa).chunk(2, dim=-1)
        k = k.reshape(b, s, self.n_head, -1).permute(0, 2, 1, 3)
        v = v.reshape(b, s, self.n_head, -1).permute(0, 2, 1, 3)
        y = F.scaled_dot_product_attention(q, k, v)
        y = y.transpose(2, 3).reshape(b, c, t).transpose(1, 2)   # (b, h, d, t) -> (b, c, t) -> (b, t, c)
        return self.out(y)


class SelfAttn(nn.Module):
    def __init__(self, n_state, n_head):
        super().__init__()
        self.n_head = n_head
        self.qkv = nn.Linear(n_state, 3 * n_state)
        self.out = nn.Linear(n_state, n_state)

    def forward(self, x):
        b, t, c = x.shape
        qkv = self.qkv(x).view(b, t, 3, self.n_head, c // self.n_head)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = y.permute(0, 2, 1, 3).reshape(b, t, c)
        return self.out(y)


class TextDecoder(nn.Module):
    def __init__(self, n_vocab=140, n_ctx=32, n_state=64, n_head=4, n_audio=48):
        super().__init__()
        self.token_embedding = nn.Embedding(n_vocab, n_state)
        self.positional_embedding = nn.Parameter(torch.randn(n_ctx, n_state) * 0.01)
        self.self_attn = SelfAttn(n_state, n_head)
        self.cross_attn = CrossAttn(n_state, n_head, n_audio)
        self.ln1, self.ln2, self.ln3 = nn.LayerNorm(n_state), nn.LayerNorm(n_state), nn.LayerNorm(n_state)

    def forward(self, tokens, audio_features):
        x = self.token_embedding(tokens) + self.positional_embedding[: tokens.shape[-1]]
        x = x + self.self_attn(self.ln1(x))
        x = x + self.cross_attn(self.ln2(x), audio_features)
        return self.ln3(x) @ self.token_embedding.weight.t()


with torch.random.fork_rng():
    torch.manual_seed(8)
    model = TextDecoder().eval()
g = torch.Generator().manual_seed(3)
inputs = dict(tokens=torch.randint(0, 140, (3, 10), generator=g), audio_features=torch.randn(3, 23, 48, generator=g))
