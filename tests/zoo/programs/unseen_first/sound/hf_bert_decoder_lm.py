"""Left-to-right language model from the BERT classes."""
import torch
from transformers import BertConfig, BertLMHeadModel


def model():
    torch.manual_seed(77)
    config = BertConfig(vocab_size=88, hidden_size=36, num_hidden_layers=2, num_attention_heads=3, intermediate_size=50,
                        max_position_embeddings=30, is_decoder=True)
    return BertLMHeadModel(config).eval()


inputs = {"input_ids": torch.randint(1, 88, (2, 11), generator=torch.Generator().manual_seed(0)), "use_cache": False}
expect = {"causal": True}
