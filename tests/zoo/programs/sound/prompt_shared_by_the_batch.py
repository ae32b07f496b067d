# Prompt tuning: one prompt for the whole batch, and queries that are learned, in library attention.
import torch
from torch import nn


class PromptReader(nn.Module):
    def __init__(self, width=16, heads=2):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(1, 4, width))
        self.read_prompt = nn.MultiheadAttention(width, heads, batch_first=True)
        self.read_text = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, text, prompt):
        prompt = prompt.expand(len(text), -1, -1)
        z = self.latents.expand(len(text), -1, -1)
        z = z + self.read_prompt(z, prompt, prompt)[0]
        return z + self.read_text(z, text, text)[0]


torch.manual_seed(0)
model = PromptReader().eval()
inputs = {"text": torch.randn(3, 7, 16), "prompt": torch.randn(1, 5, 16)}
