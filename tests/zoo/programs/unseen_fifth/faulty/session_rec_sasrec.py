"""Next-item recommendation over clicked items, item 0 fills up short sessions on the right."""
import torch
import torch.nn as nn


class PointWiseFeedForward(torch.nn.Module):
    def __init__(self, hidden_units, dropout_rate):
        super().__init__()
        self.conv1 = nn.Conv1d(hidden_units, hidden_units, kernel_size=1)
        self.dropout1 = nn.Dropout(p=dropout_rate)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv1d(hidden_units, hidden_units, kernel_size=1)

    def forward(self, inputs):
        return self.conv2(self.relu(self.dropout1(self.conv1(inputs.transpose(-1, -2))))).transpose(-1, -2) + inputs


class SessionRec(nn.Module):
    def __init__(self, item_num=50, hidden_units=32, maxlen=20, num_blocks=2, num_heads=2, dropout_rate=0.2):
        super().__init__()
        self.item_emb = nn.Embedding(item_num + 1, hidden_units, padding_idx=0)
        self.pos_emb = nn.Embedding(maxlen, hidden_units)
        self.emb_dropout = nn.Dropout(dropout_rate)
        self.attention_layernorms = nn.ModuleList()
        self.attention_layers = nn.ModuleList()
        self.forward_layernorms = nn.ModuleList()
        self.forward_layers = nn.ModuleList()
        for _ in range(num_blocks):
            self.attention_layernorms.append(nn.LayerNorm(hidden_units, eps=1e-8))
            self.attention_layers.append(nn.MultiheadAttention(hidden_units, num_heads, dropout_rate, batch_first=True))
            self.forward_layernorms.append(nn.LayerNorm(hidden_units, eps=1e-8))
            self.forward_layers.append(PointWiseFeedForward(hidden_units, dropout_rate))
        self.last_layernorm = nn.LayerNorm(hidden_units, eps=1e-8)

    def forward(self, log_seqs):
        seqs = self.item_emb(log_seqs)
        seqs = seqs * self.item_emb.embedding_dim ** 0.5
        positions = torch.arange(log_seqs.shape[1], device=log_seqs.device)
        seqs = self.emb_dropout(seqs + self.pos_emb(positions))
        for i in range(len(self.attention_layers)):
            Q = self.attention_layernorms[i](seqs)
            out, _ = self.attention_layers[i](Q, seqs, seqs, need_weights=False)  # fault: AS202
            seqs = seqs + out
            seqs = self.forward_layers[i](self.forward_layernorms[i](seqs))
        keep = (log_seqs != 0).unsqueeze(-1)
        feats = self.last_layernorm(seqs) * keep
        user = feats.sum(1) / keep.sum(1)
        return user @ self.item_emb.weight.t()


def model():
    with torch.random.fork_rng():
        torch.manual_seed(23)
        return SessionRec().eval()


inputs = {"log_seqs": torch.tensor([[3, 9, 41, 2, 17, 8], [5, 5, 30, 0, 0, 0], [12, 1, 44, 23, 0, 0]])}
expect = {"padding": "log_seqs pad=0"}
