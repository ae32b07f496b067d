"""Emotion classifier: embedding, nn.TransformerEncoder, masked mean pooling."""
import torch
import torch.nn as nn

VOCAB, DIM, HEADS, CLASSES, PAD = 90, 44, 4, 6, 0


class EmotionNet(nn.Module):
    def __init__(self):
        super(EmotionNet, self).__init__()
        self.words = nn.Embedding(VOCAB, DIM, padding_idx=PAD)
        self.where = nn.Embedding(64, DIM)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(DIM, HEADS, 70, activation=nn.functional.silu, norm_first=True, batch_first=True), num_layers=2,
            enable_nested_tensor=False)
        self.fc = nn.Linear(DIM, CLASSES)

    def forward(self, tokens, lengths):
        steps = torch.arange(tokens.size(1))
        x = self.words(tokens) + self.where(steps)
        is_pad = steps[None, :] >= lengths[:, None]
        x = self.encoder(x, src_key_padding_mask=is_pad)
        x = x.masked_fill(is_pad[:, :, None], 0.0)
        return self.fc(x.sum(dim=1) / lengths[:, None])


torch.manual_seed(1)
model = EmotionNet()
model.eval()
tokens = torch.randint(1, VOCAB, (4, 13))
lengths = torch.tensor([13, 9, 5, 11])
for row, n in enumerate(lengths):
    tokens[row, n:] = PAD
inputs = (tokens, lengths)
expect = {"padding": "lengths lengths"}
