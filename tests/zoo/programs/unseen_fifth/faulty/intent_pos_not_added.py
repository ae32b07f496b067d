"""Intent classifier on wordpieces with learned position embeddings and masked average pooling."""
import torch
import torch.nn as nn


class IntentModel(nn.Module):
    def __init__(self, vocab_size=260, dim=40, heads=4, n_layers=2, n_intents=6, max_len=50):
        super().__init__()
        self.word_embeddings = nn.Embedding(vocab_size, dim, padding_idx=0)
        self.position_embeddings = nn.Embedding(max_len, dim)
        self.LayerNorm = nn.LayerNorm(dim)
        layer = nn.TransformerEncoderLayer(dim, heads, dim * 2, dropout=0.1, batch_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, n_layers, enable_nested_tensor=False)
        self.head = nn.Linear(dim, n_intents)

    def embed(self, ids):
        pos_ids = torch.arange(ids.size(1), device=ids.device).unsqueeze(0)
        words = self.word_embeddings(ids)
        pos = self.position_embeddings(pos_ids)
        x = words
        x + pos  # fault: AS501|AS903
        return self.LayerNorm(x)  # fault: AS501|AS903

    def forward(self, ids):
        pad = ids == 0
        h = self.encoder(self.embed(ids), src_key_padding_mask=pad)
        keep = (~pad).unsqueeze(-1)
        return self.head((h * keep).sum(1) / keep.sum(1).clamp(min=1))


torch.manual_seed(501)
model = IntentModel().eval()
_x = torch.randint(1, 260, (3, 12), generator=torch.Generator().manual_seed(501))
_x[1, 8:] = 0
inputs = (_x,)
