"""Video-text matching, padded clips, mask expanded for nn.MultiheadAttention."""
import torch
import torch.nn as nn


class ClipTower(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h = h
        self.attn = nn.MultiheadAttention(d, h)
        self.ln = nn.LayerNorm(d)

    def forward(self, x, lens):
        n = x.size(1)
        drop = torch.arange(n)[None] >= lens[:, None]
        m = drop[:, None, :].expand(-1, n, -1)
        m = m.repeat(self.h, 1, 1)  # fault: AS211
        y = self.ln(x).transpose(0, 1)
        y, _ = self.attn(y, y, y, attn_mask=m, need_weights=False)
        return x + y.transpose(0, 1)


class Matcher(nn.Module):
    def __init__(self, feat=12, d=32):
        super().__init__()
        self.v, self.t = nn.Linear(feat, d), nn.Embedding(50, d)
        self.frame_pos = nn.Embedding(64, d)
        self.tower = ClipTower(d)

    def forward(self, video, video_len, text):
        x = self.tower(self.v(video) + self.frame_pos.weight[:video.size(1)], video_len)
        keep = (torch.arange(video.size(1))[None] < video_len[:, None]).unsqueeze(-1)
        z = (x * keep).sum(1) / keep.sum(1)
        return z @ self.t(text).mean(1).t()


def model():
    torch.manual_seed(7)
    return Matcher().eval()


_g = torch.Generator().manual_seed(7)
inputs = {"video": torch.randn(3, 13, 12, generator=_g), "video_len": torch.tensor([13, 5, 9]), "text": torch.randint(0, 50, (3, 6), generator=_g)}
expect = {"padding": "video_len lengths"}
# also: AS202 AS212
