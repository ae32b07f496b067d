"""Q-Former: learned queries attend to themselves, then every other layer to a frozen image encoder."""

import torch
from torch import nn


class QFormerLayer(nn.Module):
    def __init__(self, hidden, encoder_width, heads, with_cross):
        super().__init__()
        self.attention = nn.MultiheadAttention(hidden, heads, batch_first=True)
        self.ln = nn.LayerNorm(hidden)
        if with_cross:
            self.crossattention = nn.MultiheadAttention(
                hidden, heads, kdim=encoder_width, vdim=encoder_width, batch_first=True
            )
            self.cross_ln = nn.LayerNorm(hidden)
        self.with_cross = with_cross
        self.ffn = nn.Sequential(nn.Linear(hidden, 2 * hidden), nn.GELU(), nn.Linear(2 * hidden, hidden))
        self.ffn_ln = nn.LayerNorm(hidden)

    def forward(self, x, image):
        x = self.ln(x + self.attention(x, x, x, need_weights=False)[0])
        if self.with_cross:
            x = self.cross_ln(x + self.crossattention(x, image, image, need_weights=False)[0])
        return self.ffn_ln(x + self.ffn(x))


class QFormer(nn.Module):
    def __init__(self, n_query=6, hidden=32, encoder_width=44, llm_width=50, heads=4):
        super().__init__()
        self.query_tokens = nn.Parameter(torch.randn(1, n_query, hidden) * 0.02)
        self.ln_vision = nn.LayerNorm(encoder_width)
        self.layers = nn.ModuleList(QFormerLayer(hidden, encoder_width, heads, i % 2 == 0) for i in range(3))
        self.llm_proj = nn.Linear(hidden, llm_width)

    def forward(self, image_embeds):
        x = self.query_tokens.expand(image_embeds.shape[0], -1, -1)
        image = self.ln_vision(image_embeds)
        for layer in self.layers:
            x = layer(x, image)
        return self.llm_proj(x)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(60)
        return QFormer().eval()


inputs = {"image_embeds": torch.randn(3, 17, 44, generator=torch.Generator().manual_seed(61))}
# note: AS501
