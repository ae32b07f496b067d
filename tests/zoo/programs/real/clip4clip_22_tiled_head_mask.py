"""Cross transformer over text and video frames with a mask per sample, https://github.com/ArrowLuo/CLIP4Clip/issues/22."""

from collections import OrderedDict

import torch
from torch import nn


class QuickGELU(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.702 * x)


class ResidualAttentionBlock(nn.Module):
    def __init__(self, d_model, n_head):
        super().__init__()
        self.attn = nn.MultiheadAttention(d_model, n_head)
        self.ln_1 = nn.LayerNorm(d_model)
        self.mlp = nn.Sequential(
            OrderedDict(
                [
                    ("c_fc", nn.Linear(d_model, d_model * 2)),
                    ("gelu", QuickGELU()),
                    ("c_proj", nn.Linear(d_model * 2, d_model)),
                ]
            )
        )
        self.ln_2 = nn.LayerNorm(d_model)
        self.n_head = n_head

    def attention(self, x, attn_mask):
        attn_mask_ = attn_mask.repeat(self.n_head, 1, 1)  # fault: AS211
        return self.attn(x, x, x, need_weights=False, attn_mask=attn_mask_)[0]  # fault: AS211

    def forward(self, x, attn_mask):
        x = x + self.attention(self.ln_1(x), attn_mask)
        return x + self.mlp(self.ln_2(x))


class CrossModel(nn.Module):
    def __init__(self, width=32, heads=4, layers=2, max_positions=20):
        super().__init__()
        self.position_embeddings = nn.Embedding(max_positions, width)
        self.resblocks = nn.ModuleList([ResidualAttentionBlock(width, heads) for _ in range(layers)])
        self.pooler = nn.Linear(width, width)

    def forward(self, concat_input, concat_mask):
        extended = (1.0 - concat_mask.float().unsqueeze(1)) * -1000000.0
        extended = extended.expand(-1, concat_mask.size(1), -1)
        x = concat_input + self.position_embeddings.weight[: concat_input.size(1)]
        x = x.permute(1, 0, 2)
        for block in self.resblocks:
            x = block(x, extended)
        x = x.permute(1, 0, 2)
        return torch.tanh(self.pooler(x[:, 0]))


# also: AS202
with torch.random.fork_rng():
    torch.manual_seed(22)
    model = CrossModel().eval()
    inputs = {
        "concat_input": torch.randn(3, 10, 32),
        "concat_mask": (torch.arange(10) < torch.tensor([[10], [6], [4]])).long(),
    }
expect = {"padding": "concat_mask keep"}
