"""Fine-tuning script start: pretrained encoder weights are loaded into the classifier."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class OldAttention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.query, self.key, self.value, self.output = (nn.Linear(d, d) for _ in range(4))


class OldEncoder(nn.Module):
    def __init__(self, vocab=150, d=48, h=4, n=2):
        super().__init__()
        self.embeddings = nn.Embedding(vocab, d)
        self.positions = nn.Embedding(64, d)
        self.layers = nn.ModuleList(OldAttention(d, h) for _ in range(n))


class Attention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(d, d) for _ in range(3))
        self.output = nn.Linear(d, d)

    def forward(self, x):
        q, k, v = (p(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        return self.output(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Classifier(nn.Module):
    def __init__(self, vocab=150, d=48, h=4, n=2, n_classes=3):
        super().__init__()
        self.embeddings = nn.Embedding(vocab, d)
        self.positions = nn.Embedding(64, d)
        self.layers = nn.ModuleList(Attention(d, h) for _ in range(n))
        self.classifier = nn.Linear(d, n_classes)

    def forward(self, ids):
        x = self.embeddings(ids) + self.positions(torch.arange(ids.size(1), device=ids.device))
        for l in self.layers:
            x = x + l(x)
        return self.classifier(x.mean(1))


def fake_checkpoint():
    torch.manual_seed(1000)
    return OldEncoder().state_dict()


def model():
    with torch.random.fork_rng():
        state = fake_checkpoint()
        torch.manual_seed(905)
        net = Classifier()
        missing, unexpected = net.load_state_dict(state, strict=False)  # fault: AS905
        # print("missing:", missing)
        return net.eval()


inputs = (torch.randint(0, 150, (3, 13), generator=torch.Generator().manual_seed(905)),)
