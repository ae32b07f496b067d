"""Transfer learning: load the backbone (head is new), freeze it, train the head."""
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self, out):
        super().__init__()
        self.emb, self.pos = nn.Embedding(50, 24), nn.Embedding(30, 24)
        self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(24, 3, 48, batch_first=True), 2, enable_nested_tensor=False)
        self.head = nn.Linear(24, out)

    def forward(self, ids):
        return self.head(self.body(self.emb(ids) + self.pos.weight[: ids.size(1)])[:, 0])


def prepare():
    torch.manual_seed(50)
    pretrained = {k: v for k, v in Net(50).state_dict().items() if not k.startswith("head")}
    torch.manual_seed(51)
    net = Net(4)
    missing, unexpected = net.load_state_dict(pretrained, strict=False)
    assert not unexpected and all(m.startswith("head") for m in missing)
    for name, p in net.named_parameters():
        p.requires_grad = name.startswith("head")
    return net.eval()


model = prepare
