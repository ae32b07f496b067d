"""Q-Former: learned queries attend to image patches, some of which are padding of the aspect-ratio grid."""
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class QFormerOutput:
    last_hidden_state: torch.Tensor
    pooler_output: torch.Tensor


class CrossAttention(nn.Module):
    def __init__(self, hidden, vision_width, num_heads):
        super().__init__()
        self.num_attention_heads = num_heads
        self.attention_head_size = hidden // num_heads
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(vision_width, hidden)
        self.value = nn.Linear(vision_width, hidden)
        self.dense = nn.Linear(hidden, hidden)
        self.norm = nn.LayerNorm(hidden)

    def transpose_for_scores(self, x):
        return x.view(*x.shape[:-1], self.num_attention_heads, self.attention_head_size).permute(0, 2, 1, 3)

    def forward(self, hidden_states, encoder_hidden_states, encoder_attention_mask):
        q = self.transpose_for_scores(self.query(hidden_states))
        k = self.transpose_for_scores(self.key(encoder_hidden_states))
        v = self.transpose_for_scores(self.value(encoder_hidden_states))
        scores = torch.matmul(q, k.transpose(-1, -2)) / self.attention_head_size**0.5
        scores = scores + encoder_attention_mask
        probs = nn.functional.softmax(scores, dim=-1)
        ctx = torch.matmul(probs, v).permute(0, 2, 1, 3).flatten(2)
        return self.norm(hidden_states + self.dense(ctx))


class QFormer(nn.Module):
    def __init__(self, hidden=36, vision_width=20, heads=3, num_query=6, layers=2):
        super().__init__()
        self.query_tokens = nn.Parameter(torch.randn(1, num_query, hidden))
        self.layers = nn.ModuleList([CrossAttention(hidden, vision_width, heads) for _ in range(layers)])

    def invert_attention_mask(self, m):
        return (1.0 - m[:, None, None, :].float()) * -10000.0

    def forward(self, image_embeds, image_attention_mask):
        h = self.query_tokens.expand(image_embeds.shape[0], -1, -1)
        ext = self.invert_attention_mask(image_attention_mask)
        for layer in self.layers:
            h = layer(h, image_embeds, ext)
        return QFormerOutput(last_hidden_state=h, pooler_output=h.mean(1))


with torch.random.fork_rng():
    torch.manual_seed(66)
    model = QFormer().eval()
inputs = {
    "image_embeds": torch.randn(3, 14, 20, generator=torch.Generator().manual_seed(6)),
    "image_attention_mask": (torch.arange(14)[None] < torch.tensor([14, 9, 11])[:, None]).long(),
}
expect = {"padding": "image_attention_mask keep"}
