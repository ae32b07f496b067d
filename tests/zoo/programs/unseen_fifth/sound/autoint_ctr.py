"""AutoInt interacting layer on field embeddings, residual inside, no scaling as in the paper's code."""
# note: AS301
import torch
import torch.nn as nn
import torch.nn.functional as F


class InteractingLayer(nn.Module):
    def __init__(self, embedding_size, head_num=2, use_res=True, scaling=False, seed=1024):
        super(InteractingLayer, self).__init__()
        self.att_embedding_size = embedding_size // head_num
        self.head_num, self.use_res, self.scaling = head_num, use_res, scaling
        self.W_Query = nn.Parameter(torch.Tensor(embedding_size, embedding_size))
        self.W_key = nn.Parameter(torch.Tensor(embedding_size, embedding_size))
        self.W_Value = nn.Parameter(torch.Tensor(embedding_size, embedding_size))
        if self.use_res:
            self.W_Res = nn.Parameter(torch.Tensor(embedding_size, embedding_size))
        for tensor in self.parameters():
            nn.init.normal_(tensor, mean=0.0, std=0.15)

    def forward(self, inputs):
        querys = torch.tensordot(inputs, self.W_Query, dims=([-1], [0]))
        keys = torch.tensordot(inputs, self.W_key, dims=([-1], [0]))
        values = torch.tensordot(inputs, self.W_Value, dims=([-1], [0]))
        querys = torch.stack(torch.split(querys, self.att_embedding_size, dim=2))
        keys = torch.stack(torch.split(keys, self.att_embedding_size, dim=2))
        values = torch.stack(torch.split(values, self.att_embedding_size, dim=2))
        inner_product = torch.einsum('bnik,bnjk->bnij', querys, keys)
        if self.scaling:
            inner_product /= self.att_embedding_size ** 0.5
        normalized_att_scores = F.softmax(inner_product, dim=-1)
        result = torch.matmul(normalized_att_scores, values)
        result = torch.cat(torch.split(result, 1), dim=-1).squeeze(0)
        if self.use_res:
            result = result + torch.tensordot(inputs, self.W_Res, dims=([-1], [0]))
        return F.relu(result)


class AutoInt(nn.Module):
    def __init__(self, fields=(10, 6, 8, 4), d=16):
        super().__init__()
        self.emb = nn.ModuleList([nn.Embedding(n, d) for n in fields])
        self.int1, self.int2 = InteractingLayer(d), InteractingLayer(d)
        self.out = nn.Linear(d * len(fields), 1)

    def forward(self, ids):
        x = torch.stack([e(ids[:, i]) for i, e in enumerate(self.emb)], 1)
        return torch.sigmoid(self.out(self.int2(self.int1(x)).flatten(1)))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(5)
        return AutoInt().eval()


inputs = torch.tensor([[1, 2, 3, 0], [9, 5, 7, 3], [4, 0, 0, 2]])
