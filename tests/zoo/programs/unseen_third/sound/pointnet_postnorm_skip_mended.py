"""3D detector head on proposals: post-norm transformer block written from the paper's figure."""
import torch
import torch.nn as nn


class ProposalBlock(nn.Module):
    def __init__(self, d=32, nhead=4):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d, nhead, batch_first=True)
        self.linear1, self.linear2 = nn.Linear(d, 64), nn.Linear(64, d)
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, src):
        src2 = self.self_attn(src, src, src, need_weights=False)[0]
        src = self.norm1(src + src2)
        src2 = self.linear2(torch.relu(self.linear1(src)))
        return self.norm2(src + src2)


class DetectionHead(nn.Module):
    def __init__(self, layers=3):
        super().__init__()
        self.lift = nn.Linear(7, 32)
        self.blocks = nn.ModuleList([ProposalBlock() for _ in range(layers)])
        self.cls, self.reg = nn.Linear(32, 3), nn.Linear(32, 7)

    def forward(self, boxes):
        x = self.lift(boxes)
        for blk in self.blocks:
            x = blk(x)
        return self.cls(x), self.reg(x)


with torch.random.fork_rng():
    torch.manual_seed(127)
    model = DetectionHead().eval()
inputs = torch.randn(2, 13, 7, generator=torch.Generator().manual_seed(127))
