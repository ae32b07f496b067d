"""The tokens of one packed document are changed: those of the others may not move."""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.checks.comparing import gap_of
from attnscope.checks.probe import probe
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.roles import Stream
from attnscope.checks.subject.subject import Subject
from attnscope.checks.subject.varying import along, other_tokens
from attnscope.checks.visibility.tokens import by_token, real_tokens, sequence_of

__all__ = ["Documents", "documents"]

_BOUNDARIES = re.compile(r"cu_?seq_?len|cu_?lens|seq_?starts|doc(ument)?_?(starts|offsets)")
_IDS = re.compile(r"^doc(ument)?s?(_?ids?)?$|^packing|^packed")
_MOST = 8
"""Documents that are changed, one after another."""


@dataclass(frozen=True, slots=True, eq=False)
class Documents:
    """Packed documents, and how far one moves with another.

    name: the input that says which token belongs to which. of: the document of each token, (batch,
    length). changed: the document that was changed when others moved most; largest: by how much;
    moved: tokens of other documents that moved. noise: what an entry may move by rounding.
    """

    stream: Stream
    name: str
    of: Tensor
    changed: int
    largest: float
    moved: int
    noise: float


@probe
def documents(subject: Subject) -> Documents:
    """Change each document and compare the outputs of all others, in eval mode.

    Raises:
        Skipped: nothing says that documents are packed, or there is one document in each row.
    """
    stream = sequence_of(subject)
    if stream is None or not stream.length(subject.given):
        raise Skipped("no input is a sequence of tokens: give inputs that are")
    name, of = _packed(subject, stream)
    batch_axis, token_axis = along(subject, subject.output, stream)
    if token_axis is None:
        raise Skipped("the output has no axis of tokens, so that none can be said to move")
    real = real_tokens(subject, stream)
    found = (0, 0.0, 0)
    for document in of.unique().tolist()[:_MOST]:
        where = of == document
        after = subject.main_output(other_tokens(subject, stream, where))
        gap = gap_of(subject.output, after)
        tokens = by_token(gap, batch_axis, token_axis).masked_fill(where | ~real, 0.0)
        moved = int((tokens > subject.noise).sum())
        if moved and float(tokens.max()) > found[1]:
            found = (int(document), float(tokens.max()), moved)
    return Documents(stream, name, of, *found, subject.noise)


def _packed(subject: Subject, stream: Stream) -> tuple[str, Tensor]:
    """Return the input that says which documents there are, and the document of each token."""
    batch, length = stream.batch(subject.given), stream.length(subject.given)
    declared = subject.expect.get("documents")
    for name, value in subject.given.tensors():
        if name != declared and (declared is not None or not _says_so(name)):
            continue
        found = value.detach().cpu()
        if _is_boundaries(found, batch, length):
            ends = torch.arange(batch * length)[:, None] >= found.reshape(1, -1)[:, 1:]
            return name, ends.sum(-1).reshape(batch, length)
        shaped = found.mT if found.shape == (length, batch) else found
        if shaped.shape == (length,):
            shaped = shaped.expand(batch, length)
        if shaped.shape == (batch, length) and int((shaped[:, 1:] != shaped[:, :-1]).sum()):
            return name, shaped.long()
    if declared is not None:
        raise Skipped(f"{declared} is no input with one id a token, or has one document only")
    raise Skipped("nothing says that documents are packed: declare expect documents")


def _says_so(name: str) -> bool:
    return bool(_IDS.search(name.lower()) or _BOUNDARIES.search(name.lower()))


def _is_boundaries(value: Tensor, batch: int, length: int) -> bool:
    """Return whether a tensor has the first token of each document, and the number of all."""
    if value.dim() != 1 or len(value) < 3 or value.is_floating_point():
        return False
    ends = int(value[0]) == 0 and int(value[-1]) == batch * length
    return ends and bool((value[1:] >= value[:-1]).all())
