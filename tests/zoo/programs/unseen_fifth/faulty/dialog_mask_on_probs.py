"""Dialogue response selector: token encoder with lengths, masks multiplied into the attention."""
import torch
from torch import nn
import torch.nn.functional as F


def lengths_to_mask(lengths, max_len):
    return (torch.arange(max_len, device=lengths.device)[None, :] < lengths[:, None]).float()


class SelectorEncoder(nn.Module):
    def __init__(self, vocab=210, d_model=50, n_heads=5):
        super().__init__()
        self.embedding = nn.Embedding(vocab, d_model)
        self.position = nn.Embedding(70, d_model)
        self.n_heads = n_heads
        self.w_qs = nn.Linear(d_model, d_model)
        self.w_ks = nn.Linear(d_model, d_model)
        self.w_vs = nn.Linear(d_model, d_model)
        self.fc = nn.Linear(d_model, d_model)
        self.layer_norm = nn.LayerNorm(d_model)
        self.score = nn.Linear(d_model, 1)

    def forward(self, tokens, lengths):
        sz_b, len_q = tokens.size()
        d_k = self.embedding.embedding_dim // self.n_heads
        x = self.embedding(tokens) + self.position.weight[:len_q]
        mask = lengths_to_mask(lengths, len_q)
        q = self.w_qs(x).view(sz_b, len_q, self.n_heads, d_k).transpose(1, 2)
        k = self.w_ks(x).view(sz_b, len_q, self.n_heads, d_k).transpose(1, 2)
        v = self.w_vs(x).view(sz_b, len_q, self.n_heads, d_k).transpose(1, 2)
        p = F.softmax(torch.matmul(q / d_k ** 0.5, k.transpose(2, 3)), dim=-1)
        p = p * mask[:, None, None, :]  # fault: AS204
        o = self.fc(torch.matmul(p, v).transpose(1, 2).contiguous().view(sz_b, len_q, -1))
        x = self.layer_norm(x + o)
        pooled = (x * mask[..., None]).sum(1) / lengths[:, None]
        return self.score(pooled).squeeze(-1)


with torch.random.fork_rng():
    torch.manual_seed(44)
    model = SelectorEncoder().eval()
_len = torch.tensor([13, 6, 9])
_tok = torch.randint(1, 210, (3, 13), generator=torch.Generator().manual_seed(44))
_tok = torch.where(torch.arange(13) < _len[:, None], _tok, 0)
inputs = (_tok, _len)
