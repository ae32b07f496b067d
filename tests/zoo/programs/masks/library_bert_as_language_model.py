"""A small left-to-right protein language model on top of the library's BERT."""

import torch
from transformers import BertConfig, BertLMHeadModel


class ProteinLM(torch.nn.Module):
    def __init__(self, vocab_size=25, hidden=32):
        super().__init__()
        config = BertConfig(  # fault: AS201
            vocab_size=vocab_size,
            hidden_size=hidden,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=40,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        self.lm = BertLMHeadModel(config)  # fault: AS201

    def forward(self, residues):
        return self.lm(input_ids=residues).logits  # fault: AS201

    def loss(self, residues):
        logits = self(residues[:, :-1])
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), residues[:, 1:].flatten())


with torch.random.fork_rng():
    torch.manual_seed(9)
    model = ProteinLM().eval()

inputs = {"residues": torch.randint(1, 25, (3, 19), generator=torch.Generator().manual_seed(12))}
expect = {"causal": True}
