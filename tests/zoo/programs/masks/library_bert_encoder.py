"""Log-line embedding with the library's BERT, configured from a shared dictionary."""

import torch
from transformers import BertConfig, BertModel

SETTINGS = {
    "vocab_size": 55,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 24,
}


class LineEmbedder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = BertModel(BertConfig(**SETTINGS), add_pooling_layer=False)

    def forward(self, input_ids, attention_mask):
        states = self.encoder(input_ids, attention_mask=attention_mask).last_hidden_state
        weight = attention_mask.unsqueeze(-1).to(states.dtype)
        return (states * weight).sum(1) / weight.sum(1)


with torch.random.fork_rng():
    torch.manual_seed(60)
    model = LineEmbedder().eval()

_keep = (torch.arange(10)[None] < torch.tensor([[10], [6], [8], [3]])).long()
inputs = {
    "input_ids": torch.randint(1, 55, (4, 10), generator=torch.Generator().manual_seed(60)) * _keep,
    "attention_mask": _keep,
}
expect = {"causal": False, "padding": "attention_mask keep"}
