"""SASRec: self-attentive sequential recommendation, item ids left-padded with zero."""
import numpy as np
import torch


class PointWiseFeedForward(torch.nn.Module):
    def __init__(self, hidden_units):
        super().__init__()
        self.conv1 = torch.nn.Conv1d(hidden_units, hidden_units, kernel_size=1)
        self.conv2 = torch.nn.Conv1d(hidden_units, hidden_units, kernel_size=1)

    def forward(self, inputs):
        return self.conv2(self.conv1(inputs.transpose(-1, -2)).relu()).transpose(-1, -2) + inputs


class SASRec(torch.nn.Module):
    def __init__(self, item_num=50, hidden_units=24, maxlen=16, num_blocks=2, num_heads=2):
        super().__init__()
        self.item_emb = torch.nn.Embedding(item_num + 1, hidden_units, padding_idx=0)
        self.pos_emb = torch.nn.Embedding(maxlen, hidden_units)
        self.attention_layernorms = torch.nn.ModuleList()
        self.attention_layers = torch.nn.ModuleList()
        self.forward_layernorms = torch.nn.ModuleList()
        self.forward_layers = torch.nn.ModuleList()
        self.last_layernorm = torch.nn.LayerNorm(hidden_units, eps=1e-8)
        for _ in range(num_blocks):
            self.attention_layernorms.append(torch.nn.LayerNorm(hidden_units, eps=1e-8))
            self.attention_layers.append(torch.nn.MultiheadAttention(hidden_units, num_heads, 0.0))
            self.forward_layernorms.append(torch.nn.LayerNorm(hidden_units, eps=1e-8))
            self.forward_layers.append(PointWiseFeedForward(hidden_units))

    def forward(self, log_seqs):
        seqs = self.item_emb(log_seqs) * self.item_emb.embedding_dim**0.5
        positions = np.tile(np.array(range(log_seqs.shape[1])), [log_seqs.shape[0], 1])
        seqs = seqs + self.pos_emb(torch.LongTensor(positions))
        tl = seqs.shape[1]
        attention_mask = ~torch.tril(torch.ones((tl, tl), dtype=torch.bool))
        for i in range(len(self.attention_layers)):
            seqs = torch.transpose(seqs, 0, 1)
            Q = self.attention_layernorms[i](seqs)
            mha_outputs, _ = self.attention_layers[i](Q, Q, Q, attn_mask=attention_mask)
            seqs = seqs + mha_outputs
            seqs = torch.transpose(seqs, 0, 1)
            seqs = seqs + self.forward_layers[i](self.forward_layernorms[i](seqs))
        return self.last_layernorm(seqs)


with torch.random.fork_rng():
    torch.manual_seed(5)
    model = SASRec().eval()
inputs = (torch.randint(1, 51, (4, 11), generator=torch.Generator().manual_seed(2)),)
