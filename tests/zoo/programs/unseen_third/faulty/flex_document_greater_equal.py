"""Document masking with flex_attention, packed batch."""
import torch
import torch.nn as nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


class FlexBlock(nn.Module):
    def __init__(self, dim=32, heads=2, vocab=50):
        super().__init__()
        self.heads = heads
        self.emb = nn.Embedding(vocab, dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, vocab)

    def forward(self, tokens, document_id):
        B, S = tokens.shape
        x = self.emb(tokens)
        q, k, v = self.qkv(x).view(B, S, 3, self.heads, -1).permute(2, 0, 3, 1, 4)

        def document_causal(b, h, q_idx, kv_idx):
            causal = q_idx >= kv_idx
            same_doc = document_id[b, q_idx] >= document_id[b, kv_idx]  # fault: AS209
            return causal & same_doc

        block_mask = create_block_mask(document_causal, B, None, S, S, device="cpu")  # fault: AS209
        o = flex_attention(q, k, v, block_mask=block_mask)  # fault: AS209
        return self.proj(x + o.transpose(1, 2).reshape(B, S, -1))


torch.manual_seed(1)
model = FlexBlock().eval().requires_grad_(False)
inputs = (
    torch.randint(0, 50, (2, 12), generator=torch.Generator().manual_seed(2)),
    torch.tensor([[0] * 4 + [1] * 8, [0] * 7 + [1] * 3 + [2] * 2]),
)
expect = {"documents": "document_id"}
