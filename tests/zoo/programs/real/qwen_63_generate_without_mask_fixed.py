"""Left-padded prompts scored with a transformers model, https://github.com/QwenLM/Qwen/issues/63."""

import torch
from torch import nn
from transformers import Qwen2Config, Qwen2ForCausalLM

EOS = 2


class BatchScorer(nn.Module):
    """Next-token log-probabilities after each prompt; shorter prompts are filled up on the left with EOS."""

    def __init__(self):
        super().__init__()
        config = Qwen2Config(
            vocab_size=77,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=64,
            pad_token_id=EOS,
            eos_token_id=EOS,
        )
        self.lm = Qwen2ForCausalLM(config)

    def forward(self, prompts):
        logits = self.lm(input_ids=prompts, attention_mask=prompts.ne(EOS).long(), use_cache=False).logits
        return logits[:, -1].log_softmax(-1)


with torch.random.fork_rng():
    torch.manual_seed(63)
    model = BatchScorer().eval()
    prompts = torch.randint(3, 77, (3, 9))
    prompts = prompts.masked_fill(torch.arange(9) < torch.tensor([[0], [3], [5]]), EOS)
    inputs = {"prompts": prompts}
expect = {"causal": True, "padding": "prompts pad=2"}
