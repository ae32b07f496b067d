"""Batched generation with left padding, learned absolute positions."""
import torch
from torch import nn
import torch.nn.functional as F

PAD = 0


class Layer(nn.Module):
    def __init__(self, d, nh):
        super().__init__()
        self.nh = nh
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn_in, self.attn_out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp_in, self.mlp_out = nn.Linear(d, 3 * d), nn.Linear(3 * d, d)

    def forward(self, x, bias):
        b, t, d = x.shape
        q, k, v = self.attn_in(self.norm1(x)).view(b, t, 3, self.nh, -1).permute(2, 0, 3, 1, 4)
        w = (q @ k.transpose(-1, -2) / (d // self.nh) ** 0.5 + bias).softmax(dim=-1)
        x = x + self.attn_out((w @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.mlp_out(F.gelu(self.mlp_in(self.norm2(x))))


class Generator(nn.Module):
    def __init__(self, vocab=64, d=40, nh=4, n_layer=2, max_len=64):
        super().__init__()
        self.word = nn.Embedding(vocab, d, padding_idx=PAD)
        self.position = nn.Embedding(max_len, d)
        self.layers = nn.ModuleList([Layer(d, nh) for _ in range(n_layer)])
        self.lm_head = nn.Linear(d, vocab, bias=False)

    def forward(self, input_ids, attention_mask):
        t = input_ids.shape[1]
        position_ids = (attention_mask.long().cumsum(-1) - 1).clamp(min=0)
        x = self.word(input_ids) + self.position(position_ids)
        visible = torch.ones(t, t, dtype=torch.bool).tril() & attention_mask[:, None, None, :].bool()
        bias = torch.zeros_like(visible, dtype=x.dtype).masked_fill(~visible, -1e4)
        for layer in self.layers:
            x = layer(x, bias)
        return self.lm_head(x)


torch.manual_seed(9)
model = Generator().eval()
_lengths = [9, 5, 7]
_ids = torch.randint(1, 64, (3, 9), generator=torch.Generator().manual_seed(13))
_mask = torch.stack([torch.cat([torch.zeros(9 - n), torch.ones(n)]) for n in _lengths]).long()
inputs = {"input_ids": _ids * _mask, "attention_mask": _mask}
expect = {"causal": True, "padding": "attention_mask keep"}
