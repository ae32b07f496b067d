"""What PyTorch's words for a mismatch mean in an attention."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from attnscope.checks.crashes.mismatches import MISMATCHES
from attnscope.checks.crashes.misuses import MISUSES
from attnscope.checks.crashes.where import Raised, raised_at
from attnscope.checks.subject.subject import Subject

__all__ = ["PADDING", "Explained", "explained"]

PADDING = "padding-mask"
"""Kind of a mask (batch, keys) that is read as one of another shape."""


@dataclass(frozen=True, slots=True)
class Explained:
    """Why it raised: the kind of mismatch, in words, and what to do."""

    kind: str
    text: str
    fix: str
    raised: Raised
    error: str


def explained(subject: Subject) -> Explained | None:
    """Return why the forward raised; None: it did not, or not for a mismatch in an attention."""
    error = subject.crash
    raised = raised_at(error) if error is not None else None
    if error is None or raised is None:
        return None
    message = " ".join(str(error).split())
    inside = "multi_head_attention" in _functions(error) or raised.about_attention
    if not inside or "without overflow" in message:
        return None
    for pattern, say in (*MISMATCHES, *MISUSES):
        match = re.search(pattern, message)
        if match is not None:
            kind, text, fix = say(match, raised)
            found = Explained(kind, text, fix, raised, message[:300])
            return _of_padding(subject, found) if kind == "mask-shape" else found
    return None


def _of_padding(subject: Subject, found: Explained) -> Explained:
    """Say of a mask that it is of padding, where it has the sizes of the samples and tokens."""
    given = subject.given
    sizes = {(each.batch(given), each.length(given)) for each in subject.roles.streams}
    seen = [text.partition(")")[0] for _, text in found.raised.seen if text.startswith("(")]
    shapes = [re.findall(r"\d+", each) for each in seen]
    shapes += [re.findall(r"\d+", each) for each in re.findall(r"Size\(\[([^]]*)", found.error)]
    pairs = {(int(a), int(b)) for a, b in (each for each in shapes if len(each) == 2)}
    batch, keys = next(iter(sorted(pairs & sizes)), (0, 0))
    if batch == keys:
        return found
    return replace(
        found,
        kind=PADDING,
        text=f"a padding mask (batch, keys) = {(batch, keys)} is read as one of another shape, so "
        f"that its {batch} samples meet queries or heads: {found.text}",
        fix="Hand it to nn.MultiheadAttention as key_padding_mask; as attn_mask of "
        "F.scaled_dot_product_attention, or over scores, write mask[:, None, None, :].",
    )


def _functions(error: BaseException) -> str:
    names, trace = [], error.__traceback__
    while trace is not None:
        names.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    return " ".join(names)
