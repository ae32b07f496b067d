"""Leaf disease classifier, ViT written for a Kaggle competition."""
import torch
from torch import nn

CFG = {"img": 32, "patch": 8, "dim": 32, "heads": 4, "layers": 3, "n_classes": 6, "drop": 0.1}


class LeafViT(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        d = cfg["dim"]
        n = (cfg["img"] // cfg["patch"]) ** 2
        self.to_patch = nn.Conv2d(3, d, cfg["patch"], cfg["patch"])
        self.cls = nn.Parameter(torch.randn(1, 1, d) * 0.02)
        self.pos_embedding = nn.Parameter(torch.randn(1, n + 1, d))
        layer = nn.TransformerEncoderLayer(d, cfg["heads"], d * 2, cfg["drop"], activation="gelu",
                                           batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, cfg["layers"], enable_nested_tensor=False)
        self.dropout = nn.Dropout(cfg["drop"])
        self.fc = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, cfg["n_classes"]))

    def forward(self, img):
        x = self.to_patch(img)
        x = x.flatten(2).permute(0, 2, 1)
        b = x.size(0)
        x = torch.cat([self.cls.repeat(b, 1, 1), x], 1)
        x = self.dropout(x + self.pos_embedding)
        x = self.encoder(x)
        return self.fc(x[:, 0])


def model():
    with torch.random.fork_rng():
        torch.manual_seed(2020)
        net = LeafViT(CFG)
    return net.eval()


inputs = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(2020))
