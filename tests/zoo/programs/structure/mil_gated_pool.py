"""Attention pooling over bags of instances, gated as in multiple-instance learning."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class GatedAttentionPool(nn.Module):
    def __init__(self, L, D):
        super().__init__()
        self.attention_V = nn.Sequential(nn.Linear(L, D), nn.Tanh())
        self.attention_U = nn.Sequential(nn.Linear(L, D), nn.Sigmoid())
        self.attention_weights = nn.Linear(D, 1)

    def forward(self, H):
        A = self.attention_weights(self.attention_V(H) * self.attention_U(H))  # batch x instances x 1
        A = F.softmax(A, dim=1)
        return torch.matmul(A.transpose(1, 2), H).squeeze(1), A


class BagClassifier(nn.Module):
    def __init__(self, features=16, L=24, D=12):
        super().__init__()
        self.extract = nn.Sequential(nn.Linear(features, L), nn.ReLU())
        self.pool = GatedAttentionPool(L, D)
        self.classifier = nn.Linear(L, 1)

    def forward(self, bags):
        M, A = self.pool(self.extract(bags))
        return torch.sigmoid(self.classifier(M))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(310)
        return BagClassifier().eval()


def inputs():
    return {"bags": torch.randn(5, 14, 16, generator=torch.Generator().manual_seed(311))}

# note: AS501
