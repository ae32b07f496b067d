"""Gated attention pooling over tiles of a whole-slide image."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GatedAttention(nn.Module):
    def __init__(self, M=48, L=24, branches=1):
        super().__init__()
        self.M, self.L, self.ATTENTION_BRANCHES = M, L, branches
        self.feature_extractor = nn.Sequential(nn.Linear(30, self.M), nn.ReLU())
        self.attention_V = nn.Sequential(nn.Linear(self.M, self.L), nn.Tanh())
        self.attention_U = nn.Sequential(nn.Linear(self.M, self.L), nn.Sigmoid())
        self.attention_w = nn.Linear(self.L, self.ATTENTION_BRANCHES)
        self.classifier = nn.Sequential(nn.Linear(self.M * self.ATTENTION_BRANCHES, 1), nn.Sigmoid())

    def forward(self, x):
        x = x.squeeze(0)
        H = self.feature_extractor(x)      # K x M
        A = self.attention_w(self.attention_V(H) * self.attention_U(H))
        A = torch.transpose(A, 1, 0)
        A = F.softmax(A, dim=1)
        Z = torch.mm(A, H)
        Y_prob = self.classifier(Z)
        Y_hat = torch.ge(Y_prob, 0.5).float()
        return Y_prob, Y_hat, A


def model():
    with torch.random.fork_rng():
        torch.manual_seed(8)
        return GatedAttention().eval()


inputs = torch.randn(1, 17, 30, generator=torch.Generator().manual_seed(9))
expect = {"positions": False}
