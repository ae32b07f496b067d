"""nn.MultiheadAttention over retrieved passages; some questions have none."""
import torch
import torch.nn as nn


class Retriever(nn.Module):
    def __init__(self, d=28):
        super().__init__()
        self.attn = nn.MultiheadAttention(d, 4, batch_first=True)
        self.null = nn.Parameter(torch.randn(1, 1, d) * 0.1)
        self.mix = nn.Linear(2 * d, d)

    def forward(self, question, passages, n_passages):
        passages = torch.cat([self.null.expand(len(passages), -1, -1), passages], 1)
        missing = torch.arange(passages.size(1))[None] > n_passages[:, None]
        got, w = self.attn(question, passages, passages, key_padding_mask=missing)
        return self.mix(torch.cat([question, got], -1)), w


torch.manual_seed(0)
model = Retriever().eval()
_g = torch.Generator().manual_seed(0)
inputs = {"question": torch.randn(3, 5, 28, generator=_g), "passages": torch.randn(3, 6, 28, generator=_g), "n_passages": torch.tensor([6, 0, 3])}
