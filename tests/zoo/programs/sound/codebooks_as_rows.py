"""Music tokens: each codebook of a sample is a row of its own; their embeddings are summed."""
import torch
import torch.nn.functional as F
from torch import nn

CODEBOOKS = 3


class MusicDecoder(nn.Module):
    def __init__(self, vocab=40, width=24, heads=4):
        super().__init__()
        self.heads = heads
        self.embed_tokens = nn.ModuleList(nn.Embedding(vocab, width) for _ in range(CODEBOOKS))
        self.embed_positions = nn.Embedding(64, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.lm_heads = nn.ModuleList(nn.Linear(width, vocab) for _ in range(CODEBOOKS))

    def forward(self, input_ids):
        codes = input_ids.reshape(-1, CODEBOOKS, input_ids.shape[-1])
        bsz, _, seq_len = codes.shape
        x = sum(self.embed_tokens[k](codes[:, k]) for k in range(CODEBOOKS))
        x = x + self.embed_positions(torch.arange(seq_len))
        q, k, v = self.qkv(x).view(bsz, seq_len, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(bsz, seq_len, -1))
        logits = torch.stack([head(x) for head in self.lm_heads], dim=1)
        return logits.reshape(-1, *logits.shape[2:])


def model():
    torch.manual_seed(4)
    return MusicDecoder().eval()


inputs = torch.randint(0, 40, (2 * CODEBOOKS, 9), generator=torch.Generator().manual_seed(1))
expect = {"causal": True}
