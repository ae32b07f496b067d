"""Multiple-instance learning on bags of patches: gated attention pooling, bags of any size."""

import torch
import torch.nn as nn


class GatedAttentionMIL(nn.Module):
    def __init__(self, in_dim=22, hidden=18, branches=2, classes=3):
        super().__init__()
        self.feature = nn.Sequential(nn.Linear(in_dim, hidden), nn.ReLU())
        self.attention_V = nn.Sequential(nn.Linear(hidden, 12), nn.Tanh())
        self.attention_U = nn.Sequential(nn.Linear(hidden, 12), nn.Sigmoid())
        self.attention_w = nn.Linear(12, branches)
        self.classifier = nn.Linear(hidden * branches, classes)

    def forward(self, bags, bag_mask):
        H = self.feature(bags)
        A = self.attention_w(self.attention_V(H) * self.attention_U(H))
        A = A.masked_fill(~bag_mask.unsqueeze(-1), float("-inf")).transpose(1, 2)
        A = torch.softmax(A, dim=2)
        M = torch.bmm(A, H)
        return self.classifier(M.flatten(1)), A


with torch.random.fork_rng():
    torch.manual_seed(76)
    model = GatedAttentionMIL().eval()

inputs = {
    "bags": torch.randn(4, 15, 22, generator=torch.Generator().manual_seed(77)),
    "bag_mask": torch.arange(15)[None] < torch.tensor([15, 12, 6, 9])[:, None],
}
expect = {"padding": "bag_mask keep", "positions": False}
# note: AS501
