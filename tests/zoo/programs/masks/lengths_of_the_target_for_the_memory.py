"""Speech translation: one helper makes the masks of both sides."""

import torch
from torch import nn


def is_padding(lengths, longest):
    return torch.arange(longest)[None, :] >= lengths[:, None]


class SpeechTranslator(nn.Module):
    def __init__(self, words=52, width=32):
        super().__init__()
        self.frames, self.words = nn.Linear(12, width), nn.Embedding(words, width)
        self.places = nn.Parameter(torch.randn(40, width) * 0.1)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(width, 4, 64, batch_first=True), 1, enable_nested_tensor=False
        )
        self.decoder = nn.TransformerDecoder(
            nn.TransformerDecoderLayer(width, 4, 64, batch_first=True), 1
        )
        self.head = nn.Linear(width, words)

    def forward(self, frames, frame_lengths, words, word_lengths):
        hidden = is_padding(frame_lengths, frames.shape[1])
        memory = self.encoder(
            self.frames(frames) + self.places[: frames.shape[1]], src_key_padding_mask=hidden
        )
        unseen = is_padding(word_lengths, frames.shape[1])  # fault: AS202|AS211|AS212|AS208
        later = torch.ones(words.shape[1], words.shape[1]).triu(1).bool()
        y = self.words(words) + self.places[: words.shape[1]]
        blank = is_padding(word_lengths, words.shape[1])
        y = self.decoder(
            y, memory, tgt_mask=later, tgt_key_padding_mask=blank, memory_key_padding_mask=unseen
        )
        return self.head(y)


torch.manual_seed(66)
model = SpeechTranslator().eval()
inputs = {
    "frames": torch.randn(3, 14, 12),
    "frame_lengths": torch.tensor([14, 9, 11]),
    "words": torch.randint(1, 52, (3, 8)) * (torch.arange(8) < torch.tensor([[5], [8], [6]])),
    "word_lengths": torch.tensor([5, 8, 6]),
}
expect = {"causal": True, "padding": "frame_lengths lengths"}
# also: AS202 AS208 AS211 AS212
