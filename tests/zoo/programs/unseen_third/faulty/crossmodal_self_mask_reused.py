"""Audio-visual fusion: audio frames attend to video frames, both padded to 16."""
import torch
import torch.nn as nn


class CrossModal(nn.Module):
    def __init__(self, da=10, dv=14, d=32, h=4):
        super().__init__()
        self.a, self.v = nn.Linear(da, d), nn.Linear(dv, d)
        self.pos_a, self.pos_v = nn.Parameter(torch.randn(16, d) * 0.2), nn.Parameter(torch.randn(16, d) * 0.2)
        self.self_a = nn.MultiheadAttention(d, h, batch_first=True)
        self.cross = nn.MultiheadAttention(d, h, batch_first=True)
        self.n1, self.n2, self.n3 = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.out = nn.Linear(d, 4)

    def forward(self, audio, video, audio_pad, video_pad):
        a, v = self.a(audio) + self.pos_a, self.v(video) + self.pos_v
        y = self.n1(a)
        a = a + self.self_a(y, y, y, key_padding_mask=audio_pad, need_weights=False)[0]
        y, m = self.n2(a), self.n3(v)
        a = a + self.cross(y, m, m, key_padding_mask=audio_pad, need_weights=False)[0]  # fault: AS208|AS202|AS211
        keep = (~audio_pad).unsqueeze(-1)
        return self.out((a * keep).sum(1) / keep.sum(1))


# also: AS202 AS212
with torch.random.fork_rng():
    torch.manual_seed(145)
    model = CrossModal().eval()
_g = torch.Generator().manual_seed(145)
_r = torch.arange(16)[None]
inputs = {
    "audio": torch.randn(3, 16, 10, generator=_g),
    "video": torch.randn(3, 16, 14, generator=_g),
    "audio_pad": _r >= torch.tensor([16, 9, 13])[:, None],
    "video_pad": _r >= torch.tensor([7, 16, 11])[:, None],
}
