"""Start from the language model checkpoint, keep what fits."""
import io
import torch
import torch.nn as nn


def make(d=32, h=4, vocab=50):
    layer = nn.TransformerEncoderLayer(d, h, 64, batch_first=True, norm_first=True)
    return nn.ModuleDict({"tok": nn.Embedding(vocab, d), "enc": nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), "head": nn.Linear(d, 3)})


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = make()

    def forward(self, ids):
        return self.m["head"](self.m["enc"](self.m["tok"](ids)).mean(1))


def download():
    torch.manual_seed(500)
    donor = Net()
    with torch.no_grad():
        for p in donor.parameters():
            p.add_(torch.randn_like(p) * 0.1)
    sd = donor.state_dict()
    f = io.BytesIO()
    torch.save(sd, f)
    f.seek(0)
    return torch.load(f)


def init_from_checkpoint():
    torch.manual_seed(1)
    net = Net()
    pretrained = download()
    own = net.state_dict()
    usable = {k: v for k, v in pretrained.items() if k in own and v.shape == own[k].shape}
    own.update(usable)
    net.load_state_dict(own)
    # print(f"loaded {len(usable)} tensors")
    return net.eval()


model = init_from_checkpoint
