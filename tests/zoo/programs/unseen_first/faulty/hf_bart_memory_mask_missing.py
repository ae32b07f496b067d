"""Summariser that runs the BART encoder and decoder one after the other."""
import torch
from torch import nn
from transformers import BartConfig, BartModel


class TwoStage(nn.Module):
    def __init__(self):
        super().__init__()
        config = BartConfig(vocab_size=95, d_model=40, encoder_layers=1, decoder_layers=2, encoder_attention_heads=4,
                            decoder_attention_heads=4, encoder_ffn_dim=60, decoder_ffn_dim=60, max_position_embeddings=40)
        self.bart = BartModel(config)
        self.head = nn.Linear(40, 95)

    def forward(self, article, article_mask, summary):
        memory = self.bart.encoder(input_ids=article, attention_mask=article_mask).last_hidden_state
        out = self.bart.decoder(  # fault: AS202
            input_ids=summary,
            encoder_hidden_states=memory,
            use_cache=False,
        )
        return self.head(out.last_hidden_state)


with torch.random.fork_rng():
    torch.manual_seed(26)
    model = TwoStage().eval()
    inputs = {"article": torch.randint(3, 95, (3, 15)), "article_mask": torch.ones(3, 15, dtype=torch.long), "summary": torch.randint(3, 95, (3, 7))}
inputs["article_mask"][1, 10:] = 0
inputs["article_mask"][2, 4:] = 0
expect = {"causal": True, "padding": "article_mask keep"}
