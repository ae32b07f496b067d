"""Action chunking policy: DETR-like decoder with position queries, memory of image tokens and joint state, zero targets."""
import torch
import torch.nn as nn


class ACT(nn.Module):
    def __init__(self, d=32, h=4, chunk=7, joints=6):
        super().__init__()
        self.img, self.joint, self.latent = nn.Conv2d(3, d, 4, 4), nn.Linear(joints, d), nn.Linear(4, d)
        self.pos, self.query_embed = nn.Parameter(torch.randn(40, 1, d) * 0.2), nn.Embedding(chunk, d)
        self.encoder = nn.TransformerEncoderLayer(d, h, 64, dropout=0.1)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(d, h, 64, dropout=0.1), 2)
        self.action_head, self.is_pad_head = nn.Linear(d, joints), nn.Linear(d, 1)

    def forward(self, image, qpos, z):
        src = self.img(image).flatten(2).permute(2, 0, 1)
        src = torch.cat([self.latent(z)[None], self.joint(qpos)[None], src]) + self.pos[: src.size(0) + 2]
        memory = self.encoder(src)
        hs = self.decoder(self.query_embed.weight.unsqueeze(1).repeat(1, image.size(0), 1), memory).transpose(0, 1)
        return self.action_head(hs), self.is_pad_head(hs)


with torch.random.fork_rng():
    torch.manual_seed(56)
    model = ACT().eval()
_g = torch.Generator().manual_seed(56)
inputs = (torch.randn(2, 3, 16, 12, generator=_g), torch.randn(2, 6, generator=_g), torch.zeros(2, 4))
