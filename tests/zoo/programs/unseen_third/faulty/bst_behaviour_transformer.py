"""Behaviour sequence transformer for click-through rate: history plus target item, MLP on top."""
import torch
from torch import nn


class BST(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.args = args
        self.embed_item = nn.Embedding(args["items"], args["dim"])
        self.embed_pos = nn.Embedding(args["hist"] + 1, args["dim"])
        layer = nn.TransformerEncoderLayer(args["dim"], args["heads"], 64, dropout=0.1, activation="gelu")  # fault: AS102
        self.transformer = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.mlp = nn.Sequential(nn.Linear((args["hist"] + 1) * args["dim"] + 4, 32), nn.LeakyReLU(), nn.Linear(32, 1))

    def forward(self, hist, target, user):
        seq = torch.cat([hist, target.unsqueeze(1)], dim=1)
        pos = torch.arange(seq.size(1), device=seq.device)
        x = self.embed_item(seq) + self.embed_pos(pos)
        x = self.transformer(x)  # fault: AS102
        return torch.sigmoid(self.mlp(torch.cat([x.flatten(1), user], 1))).squeeze(1)


# also: AS501
def model():
    with torch.random.fork_rng():
        torch.manual_seed(21)
        return BST({"items": 60, "dim": 32, "heads": 4, "hist": 9}).eval()


def inputs():
    g = torch.Generator().manual_seed(3)
    return torch.randint(0, 60, (5, 9), generator=g), torch.randint(0, 60, (5,), generator=g), torch.rand(5, 4, generator=g)
