"""OPT-like decoder: learned positions with an offset of two, counted after the padding."""

import torch
from torch import nn


class PositionalEmbedding(nn.Embedding):
    offset = 2

    def __init__(self, places, width):
        super().__init__(places + self.offset, width)

    def forward(self, attention_mask):
        pads = (attention_mask == 0).sum(dim=1, keepdim=True).amax()  # fault: AS504
        steps = torch.arange(attention_mask.shape[1], device=attention_mask.device)
        positions = (steps - pads).clamp(min=-1).expand(attention_mask.shape)  # fault: AS504
        return super().forward(positions + self.offset)


class Decoder(nn.Module):
    def __init__(self, vocab=75, width=28, heads=4, places=48):
        super().__init__()
        self.heads = heads
        self.embed_tokens = nn.Embedding(vocab, width, padding_idx=1)
        self.embed_positions = PositionalEmbedding(places, width)
        self.norm = nn.LayerNorm(width)
        self.q_proj = nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)
        self.lm_head = nn.Linear(width, vocab, bias=False)

    def forward(self, input_ids, attention_mask):
        b, t = input_ids.shape
        x = self.embed_tokens(input_ids) + self.embed_positions(attention_mask)
        h = self.norm(x)
        q = self.q_proj(h) * (h.shape[-1] // self.heads) ** -0.5
        q, k, v = (
            y.view(b, t, self.heads, -1).transpose(1, 2).reshape(b * self.heads, t, -1)
            for y in (q, self.k_proj(h), self.v_proj(h))
        )
        scores = torch.bmm(q, k.transpose(1, 2)).view(b, self.heads, t, t)
        lowest = torch.finfo(scores.dtype).min
        future = torch.ones(t, t, dtype=torch.bool).triu(1)
        blocked = future | (attention_mask == 0)[:, None, None, :]
        weights = scores.masked_fill(blocked, lowest).softmax(-1).view(b * self.heads, t, t)
        context = torch.bmm(weights, v).view(b, self.heads, t, -1).transpose(1, 2).flatten(2)
        return self.lm_head(x + self.out_proj(context))


with torch.random.fork_rng():
    torch.manual_seed(18)
    model = Decoder().eval()

mask = torch.tensor([[0] * 4 + [1] * 9, [0] * 1 + [1] * 12])
ids = torch.randint(2, 75, (2, 13), generator=torch.Generator().manual_seed(18))
inputs = {"input_ids": ids.masked_fill(mask == 0, 1), "attention_mask": mask}
expect = {"causal": True, "padding": "attention_mask keep"}
# also: AS203
