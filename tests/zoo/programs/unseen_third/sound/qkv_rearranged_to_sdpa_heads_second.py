"""ModernBERT-ish unpadded layer turned back into a padded one."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Layer(nn.Module):
    def __init__(self, hidden=40, heads=5):
        super().__init__()
        self.heads = heads
        self.attn_norm = nn.LayerNorm(hidden, bias=False)
        self.Wqkv, self.Wo = nn.Linear(hidden, 3 * hidden, bias=False), nn.Linear(hidden, hidden, bias=False)
        self.mlp_norm = nn.LayerNorm(hidden, bias=False)
        self.Wi, self.Wout = nn.Linear(hidden, 4 * hidden, bias=False), nn.Linear(2 * hidden, hidden, bias=False)

    def attend(self, x):
        bs, seqlen, dim = x.shape
        qkv = self.Wqkv(x).view(bs, seqlen, 3, self.heads, -1)
        q, k, v = torch.unbind(qkv.permute(2, 0, 3, 1, 4), 0)
        out = F.scaled_dot_product_attention(q, k, v, dropout_p=0.0)
        return self.Wo(out.transpose(1, 2).reshape(bs, seqlen, dim))

    def forward(self, x):
        x = x + self.attend(self.attn_norm(x))
        a, g = self.Wi(self.mlp_norm(x)).chunk(2, dim=-1)
        return x + self.Wout(F.gelu(a) * g)


class Bert(nn.Module):
    def __init__(self, vocab=61):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, 40), nn.Embedding(64, 40)
        self.layers = nn.Sequential(Layer(), Layer())
        self.decoder = nn.Linear(40, vocab)

    def forward(self, input_ids):
        return self.decoder(self.layers(self.tok(input_ids) + self.pos.weight[: input_ids.size(1)]))


torch.manual_seed(0)
model = Bert().eval()
