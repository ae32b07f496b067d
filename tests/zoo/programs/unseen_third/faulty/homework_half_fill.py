"""Homework 3: masked self-attention. Runs in half precision to fit the lab machines."""
import torch
import torch.nn as nn

BIG_NEGATIVE = -1e5


class MaskedSelfAttention(nn.Module):
    def __init__(self, embed_size=24, head_count=3):
        super().__init__()
        self.head_count = head_count
        self.head_size = embed_size // head_count
        self.query_layer = nn.Linear(embed_size, embed_size)
        self.key_layer = nn.Linear(embed_size, embed_size)
        self.value_layer = nn.Linear(embed_size, embed_size)
        self.final_layer = nn.Linear(embed_size, embed_size)

    def split_heads(self, tensor):
        batch, length, _ = tensor.size()
        return tensor.view(batch, length, self.head_count, self.head_size).transpose(1, 2)

    def forward(self, hidden):
        batch, length, size = hidden.size()
        query = self.split_heads(self.query_layer(hidden))
        key = self.split_heads(self.key_layer(hidden))
        value = self.split_heads(self.value_layer(hidden))
        energy = query @ key.transpose(-1, -2) / self.head_size**0.5
        future = torch.ones(length, length).triu(1).bool()
        energy = energy.masked_fill(future, BIG_NEGATIVE)  # fault: AS207
        attention = torch.softmax(energy.float(), dim=-1).to(value.dtype)
        answer = (attention @ value).transpose(1, 2).reshape(batch, length, size)
        return self.final_layer(answer)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(12)
        return MaskedSelfAttention().half().eval()


inputs = (torch.randn(2, 9, 24, generator=torch.Generator().manual_seed(2)).half(),)
