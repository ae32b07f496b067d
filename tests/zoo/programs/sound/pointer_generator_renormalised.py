"""Summariser's attention in See et al.: softmax first, then mask and divide by what is left."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, hidden_dim):
        super().__init__()
        self.W_h = nn.Linear(hidden_dim * 2, hidden_dim * 2, bias=False)
        self.decode_proj = nn.Linear(hidden_dim, hidden_dim * 2)
        self.v = nn.Linear(hidden_dim * 2, 1, bias=False)

    def forward(self, dec_states, encoder_outputs, enc_padding_mask):
        enc = self.W_h(encoder_outputs).unsqueeze(1)
        dec = self.decode_proj(dec_states).unsqueeze(2)
        scores = self.v(torch.tanh(enc + dec)).squeeze(-1)
        attn_dist_ = F.softmax(scores, dim=-1) * enc_padding_mask.unsqueeze(1)
        normalization_factor = attn_dist_.sum(-1, keepdim=True)
        attn_dist = attn_dist_ / normalization_factor
        return torch.bmm(attn_dist, encoder_outputs), attn_dist


class PointerGenerator(nn.Module):
    def __init__(self, vocab=46, emb=20, hidden=16):
        super().__init__()
        self.embedding = nn.Embedding(vocab, emb)
        self.encoder = nn.LSTM(emb, hidden, batch_first=True, bidirectional=True)
        self.decoder = nn.LSTM(emb, hidden, batch_first=True)
        self.attention = Attention(hidden)
        self.p_gen = nn.Linear(3 * hidden, 1)
        self.out = nn.Linear(3 * hidden, vocab)

    def forward(self, article, article_mask, summary):
        lengths = article_mask.sum(1).long().cpu()
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(article), lengths, batch_first=True, enforce_sorted=False
        )
        enc, _ = nn.utils.rnn.pad_packed_sequence(
            self.encoder(packed)[0], batch_first=True, total_length=article.size(1)
        )
        dec, _ = self.decoder(self.embedding(summary))
        context, attn = self.attention(dec, enc, article_mask)
        state = torch.cat([dec, context], dim=-1)
        p_gen = torch.sigmoid(self.p_gen(state))
        vocab_dist = p_gen * F.softmax(self.out(state), dim=-1)
        index = article.unsqueeze(1).expand(-1, summary.size(1), -1)
        return vocab_dist.scatter_add(2, index, (1 - p_gen) * attn)


with torch.random.fork_rng():
    torch.manual_seed(8)
    model = PointerGenerator().eval()

_g = torch.Generator().manual_seed(9)
_mask = (torch.arange(13) < torch.tensor([13, 10, 7])[:, None]).float()
inputs = {
    "article": torch.randint(1, 46, (3, 13), generator=_g) * _mask.long(),
    "article_mask": _mask,
    "summary": torch.randint(1, 46, (3, 6), generator=_g),
}
expect = {"padding": "article_mask keep"}
