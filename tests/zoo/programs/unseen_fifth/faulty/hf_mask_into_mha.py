"""Token classifier head: re-contextualises tokenizer output with nn.MultiheadAttention."""
# also: AS202 AS212
import torch
import torch.nn as nn


class ContextLayer(nn.Module):
    def __init__(self, hidden_size, num_heads, p=0.1):
        super().__init__()
        self.mha = nn.MultiheadAttention(hidden_size, num_heads, dropout=p, batch_first=True)
        self.norm = nn.LayerNorm(hidden_size)
        self.dropout = nn.Dropout(p)

    def forward(self, hidden, attention_mask=None):
        key_padding_mask = attention_mask.bool() if attention_mask is not None else None  # fault: AS205
        out, weights = self.mha(hidden, hidden, hidden, key_padding_mask=key_padding_mask)  # fault: AS205
        return self.norm(hidden + self.dropout(out)), weights


class TokenClassifier(nn.Module):
    def __init__(self, vocab_size=300, hidden_size=64, num_heads=8, num_labels=7):
        super().__init__()
        self.embeddings = nn.Embedding(vocab_size, hidden_size, padding_idx=0)
        self.position_embeddings = nn.Embedding(128, hidden_size)
        self.register_buffer("position_ids", torch.arange(128).expand((1, -1)))
        self.ctx = ContextLayer(hidden_size, num_heads)
        self.classifier = nn.Linear(hidden_size, num_labels)

    def forward(self, input_ids, attention_mask=None, labels=None):
        e = self.embeddings(input_ids) + self.position_embeddings(self.position_ids[:, : input_ids.size(1)])
        h, _ = self.ctx(e, attention_mask)
        logits = self.classifier(h)
        if labels is None:
            return {"logits": logits}
        return {"logits": logits, "loss": nn.functional.cross_entropy(logits.transpose(1, 2), labels)}


torch.manual_seed(23)
model = TokenClassifier().eval()
_mask = torch.tensor([[1] * 11 + [0] * 3, [1] * 8 + [0] * 6, [1] * 12 + [0] * 2])
_ids = torch.randint(1, 300, (3, 14), generator=torch.Generator().manual_seed(23)) * _mask
inputs = {"input_ids": _ids, "attention_mask": _mask}
expect = {"padding": "attention_mask keep"}
