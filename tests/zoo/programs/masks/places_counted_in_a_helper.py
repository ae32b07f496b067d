"""Playlists, padded in front so that the last song stands last."""

import torch
from torch import nn
from torch.nn import functional as F


def places_of(played):
    """Return the place of each song in its list."""
    places = (played.cumsum(1) - 1).clamp(min=0)
    return places


class Playlist(nn.Module):
    def __init__(self, songs=90, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.song, self.place = nn.Embedding(songs, width), nn.Embedding(20, width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.next = nn.Linear(width, songs)

    def embed(self, songs, played):
        return self.song(songs) + self.place(places_of(played))

    def forward(self, songs, played):
        b, n = songs.shape
        x = self.embed(songs, played)
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        visible = torch.ones(n, n, dtype=torch.bool).tril() & played.bool()[:, None, None, :]
        visible = visible | torch.eye(n, dtype=torch.bool)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=visible)
        return self.next(x + self.out(y.transpose(1, 2).reshape(b, n, -1)))


torch.manual_seed(71)
model = Playlist().eval()
_played = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1], [1] * 8, [0, 1, 1, 1, 1, 1, 1, 1]])
inputs = {"songs": torch.randint(1, 90, (3, 8)) * _played, "played": _played}
expect = {"causal": True, "padding": "played keep"}
