"""CommonLit head: attention pooling, softmax over the tokens (dim=1) of a (batch, tokens, 1) score."""
import torch
import torch.nn as nn


class AttentionHead(nn.Module):
    def __init__(self, h_size, hidden_dim=24):
        super().__init__()
        self.W, self.V = nn.Linear(h_size, hidden_dim), nn.Linear(hidden_dim, 1)

    def forward(self, features, mask):
        score = self.V(torch.tanh(self.W(features)))
        score[mask == 0] = -1e4
        attention_weights = torch.softmax(score, dim=1)
        return torch.sum(attention_weights * features, dim=1)


class CLRPModel(nn.Module):
    def __init__(self, vocab=100, d=32):
        super().__init__()
        self.emb, self.pos = nn.Embedding(vocab, d), nn.Embedding(40, d)
        self.layer = nn.TransformerEncoderLayer(d, 4, 48, batch_first=True)
        self.head, self.reg = AttentionHead(d), nn.Linear(d, 1)

    def forward(self, input_ids, attention_mask):
        x = self.emb(input_ids) + self.pos(torch.arange(input_ids.size(1)))
        x = self.layer(x, src_key_padding_mask=attention_mask == 0)
        return self.reg(self.head(x, attention_mask))


with torch.random.fork_rng():
    torch.manual_seed(21)
    model = CLRPModel().eval()
_m = (torch.arange(17)[None] < torch.tensor([17, 10, 13])[:, None]).long()
inputs = {"input_ids": torch.randint(0, 100, (3, 17), generator=torch.Generator().manual_seed(21)), "attention_mask": _m}
expect = {"padding": "attention_mask keep"}
