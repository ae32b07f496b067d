"""Linear probe on a small ViT."""
import torch
from transformers import ViTConfig, ViTModel


class Probe(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.vit = ViTModel(ViTConfig(hidden_size=36, num_hidden_layers=2, num_attention_heads=3, intermediate_size=50, image_size=20, patch_size=5), add_pooling_layer=False)
        self.linear = torch.nn.Linear(36, 4)

    def forward(self, pixel_values):
        with torch.no_grad():
            features = self.vit(pixel_values).last_hidden_state[:, 0]
        return self.linear(features)


torch.manual_seed(53)
model = Probe().eval()
inputs = {"pixel_values": torch.rand(3, 3, 20, 20)}
