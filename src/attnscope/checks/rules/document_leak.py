"""AS209: packed documents see each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule

if TYPE_CHECKING:
    from attnscope.checks.subject.subject import Subject


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.probes.documents import documents
    from attnscope.checks.visibility.packing import across_documents

    probed = documents(subject)
    if not probed.moved:
        return
    message = (
        f"changing document {probed.changed} of {probed.name} moves {probed.moved} tokens of other "
        f"documents, by up to {probed.largest:.2g} (noise {probed.noise:.1g})"
    )
    evidence = {
        "documents": probed.name,
        "changed_document": probed.changed,
        "moved_in_others": probed.largest,
        "tokens_moved": probed.moved,
        "noise": probed.noise,
    }
    found = list(across_documents(subject, probed.stream, probed.of))
    for each in found:
        yield RULE.found(
            f"{message}; token {each.query} attends to {each.key}, which belongs to another one",
            evidence | {"query": each.query, "key": each.key},
            source=each.line,
            call=each.layer.call,
        )
    if not found:
        yield RULE.found(message, evidence, module="")


RULE = Rule(
    code="AS209",
    name="document-leak",
    severity="error",
    what="Tokens of one packed document attend to those of another one in the same row.",
    why=(
        "Documents that are packed into one row to save padding have nothing to do with each "
        "other. The model learns from context that it will not have, and a document's result "
        "depends on what it was packed with."
    ),
    fix=(
        "Let a query see keys of its own document only: mask = (documents[:, :, None] == "
        "documents[:, None, :]) together with the causal mask, in every layer; or call a kernel "
        "for sequences of several lengths with their boundaries."
    ),
    proof=(
        "All tokens of one document are replaced by others; outputs of other documents that move "
        "by more than the noise of the run depend on it. Each attention is then run by itself in "
        "float64 with single tokens changed, and the line is that of the first operation which "
        "makes a pair of two documents visible, or of the softmax where nothing is masked."
    ),
    limits=(
        "Runs where expect documents names an input, or an input is called so (document ids, "
        "cu_seqlens). Segment ids that mean something else (token_type_ids) are left alone."
    ),
    sources=(
        "https://github.com/huggingface/nanoVLM/pull/204",
        "https://github.com/huggingface/transformers/pull/44911",
    ),
    bad="""
import torch
from torch import nn
from torch.nn import functional as F


class Packed(nn.Module):
    def __init__(self, vocabulary=40, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.embedding = nn.Embedding(vocabulary, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, ids, documents):
        b, t = ids.shape
        q, k, v = self.qkv(self.embedding(ids)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, -1))


model = Packed().eval()
inputs = {
    "ids": torch.randint(0, 40, (2, 9)),
    "documents": torch.tensor([[0] * 4 + [1] * 5, [0] * 6 + [1] * 3]),
}
expect = {"causal": True, "documents": "documents"}
""",
    good="""
import torch
from torch import nn
from torch.nn import functional as F


class Packed(nn.Module):
    def __init__(self, vocabulary=40, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.embedding = nn.Embedding(vocabulary, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, ids, documents):
        b, t = ids.shape
        q, k, v = self.qkv(self.embedding(ids)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        own = documents[:, :, None] == documents[:, None, :]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=own.tril()[:, None])
        return self.out(y.transpose(1, 2).reshape(b, t, -1))


model = Packed().eval()
inputs = {
    "ids": torch.randint(0, 40, (2, 9)),
    "documents": torch.tensor([[0] * 4 + [1] * 5, [0] * 6 + [1] * 3]),
}
expect = {"causal": True, "documents": "documents"}
""",
    check=_check,
    explains=("AS208",),
)  # fmt: skip
