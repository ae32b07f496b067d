"""BERT-from-scratch encoder (course homework), extended mask built by hand."""
import torch
from torch import nn


class BertSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.num_attention_heads = config["num_attention_heads"]
        self.attention_head_size = config["hidden_size"] // self.num_attention_heads
        self.query = nn.Linear(config["hidden_size"], config["hidden_size"])
        self.key = nn.Linear(config["hidden_size"], config["hidden_size"])
        self.value = nn.Linear(config["hidden_size"], config["hidden_size"])
        self.dropout = nn.Dropout(config["attention_probs_dropout_prob"])

    def transform(self, x, linear_layer):
        bs, seq_len = x.shape[:2]
        return linear_layer(x).view(bs, seq_len, self.num_attention_heads, self.attention_head_size).transpose(1, 2)

    def attention(self, key, query, value, attention_mask):
        S = query @ key.transpose(-1, -2) / self.attention_head_size ** 0.5
        S = S + attention_mask
        S = self.dropout(torch.softmax(S, dim=-1))
        out = (S @ value).transpose(1, 2)
        return out.flatten(2)

    def forward(self, hidden_states, attention_mask):
        return self.attention(self.transform(hidden_states, self.key), self.transform(hidden_states, self.query),
                              self.transform(hidden_states, self.value), attention_mask)


class MiniBert(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.pos = nn.Embedding(config["max_position"], config["hidden_size"])
        self.layers = nn.ModuleList([BertSelfAttention(config) for _ in range(config["num_hidden_layers"])])
        self.dense = nn.ModuleList([nn.Linear(config["hidden_size"], config["hidden_size"])
                                    for _ in range(config["num_hidden_layers"])])
        self.ln = nn.LayerNorm(config["hidden_size"])
        self.classifier = nn.Linear(config["hidden_size"], config["num_labels"])

    @staticmethod
    def get_extended_attention_mask(attention_mask):
        ext = attention_mask[:, None, None, :].float()
        return (1.0 - ext) * -10000.0

    def forward(self, input_ids, attention_mask):
        x = self.embed(input_ids) + self.pos(torch.arange(input_ids.size(1), device=input_ids.device))
        ext = self.get_extended_attention_mask(attention_mask)
        for att, dense in zip(self.layers, self.dense):
            x = self.ln(x + dense(att(x, ext)))
        return self.classifier(x[:, 0])


with torch.random.fork_rng():
    torch.manual_seed(12)
    model = MiniBert(dict(vocab_size=160, hidden_size=42, num_attention_heads=3, num_hidden_layers=2, max_position=40,
                          attention_probs_dropout_prob=0.1, num_labels=5)).eval()
ids = torch.randint(3, 160, (4, 12), generator=torch.Generator().manual_seed(12))
am = torch.ones(4, 12, dtype=torch.long)
am[1, 7:] = 0
am[3, 4:] = 0
inputs = {"input_ids": ids * am, "attention_mask": am}
expect = {"padding": "attention_mask keep"}
