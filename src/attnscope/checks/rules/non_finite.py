"""AS802: NaN or infinity, with the first place where it appears."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule, Skipped

if TYPE_CHECKING:
    from attnscope.checks.scoring.nonfinite import NotFinite
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]


def _check(subject: Subject) -> Iterator[Finding]:
    import torch

    from attnscope.checks.scoring.nonfinite import first_not_finite

    for name, tensor in subject.given.tensors():
        dense = tensor.layout == torch.strided and not tensor.is_nested
        if dense and tensor.is_floating_point() and bool(tensor.isnan().any()):
            raise Skipped(f"the input {name} holds NaN itself: give inputs of numbers")
    found, spoiled = first_not_finite(subject), list[str]()
    if found is None:
        found = first_not_finite(subject, padded=True)
        spoiled = _spoiled_parameters(subject) if found is not None else []
        if not spoiled:
            return
    if found is None or (found.hidden and _is_told_as_empty_row(subject)):
        return
    yield RULE.found(
        _message(found, spoiled),
        {
            "operation": found.operation.name,
            "makes": found.what,
            "entries": found.count,
            "entries_of_output": found.reached,
            "size_of_output": found.size,
            "empty_rows": found.hidden,
            "largest_operand": found.largest,
            "gradients_not_finite": spoiled,
        },
        source=found.operation.source,
        module="",
        fix=_FIX_OF_EMPTY if found.hidden else None,
    )


def _is_told_as_empty_row(subject: Subject) -> bool:
    """Return whether AS203 says it: a warning, under which an error can't be folded."""
    from attnscope.checks.masking.empty import empty_rows
    from attnscope.checks.masking.seen import seen_by

    found = (empty_rows(subject, seen_by(subject, call)) for call in subject.calls)
    return any(each is not None and each.gives == "nan" for each in found)


def _spoiled_parameters(subject: Subject) -> list[str]:
    """Return the parameters whose gradient isn't finite, outputs that aren't left out."""
    from attnscope.checks.probes.backward import backward

    try:
        gradients = backward(subject).parameters
    except Skipped:  # it is not trained
        return []
    return [n for n, g in gradients.items() if g is not None and not bool(g.isfinite().all())]


def _message(found: NotFinite, spoiled: list[str]) -> str:
    why = (
        f"of {found.hidden} rows in which every key is hidden"
        if found.hidden
        else f"of finite operands (largest {found.largest:.4g})"
    )
    made = f"{found.operation.spoken} makes {found.what} {why}, in {found.count} entries, and "
    if spoiled:
        return (
            f"{made}although only outputs at padded positions are not finite, so are the gradients "
            f"of {len(spoiled)} parameters ({', '.join(spoiled[:3])}), whatever the loss leaves out"
        )
    return (
        f"{made}{found.reached} of {found.size} entries of the output are not finite in consequence"
    )


_FIX_OF_EMPTY = (
    "Let every query see at least itself, or fill with torch.finfo(scores.dtype).min instead "
    "of -inf "
    "and leave the rows of padding out of what follows."
)

RULE = Rule(
    code="AS802",
    name="non-finite",
    severity="error",
    what=(
        "An output is NaN or infinite on ordinary inputs. The finding points at the first "
        "operation that made it so."
    ),
    why=(
        "One such entry makes the loss NaN and, with the next step, every parameter. It often "
        "needs a certain input: a sample that is all padding, a score above 88 in float32 or above "
        "11 in float16."
    ),
    fix=(
        "Use torch.softmax, which subtracts the largest score of a row first, instead of exp and a "
        "sum; add an epsilon to a norm before dividing by it; compute in float32 what overflows in "
        "float16; never fill with +inf."
    ),
    proof=(
        "The outputs of the recorded run are not finite at real tokens. From there the recorded "
        "operations are followed back along operands that are NaN or +inf, to the first one whose "
        "operands are all finite (-inf counts as finite: it hides keys). Where that is so at "
        "padded positions alone, a backward that leaves them out must give finite gradients."
    ),
    limits=(
        "Only what the given inputs bring about is seen. Outputs at padded positions are left "
        "alone (see AS203), unless gradients of parameters are not finite for them."
    ),
    sources=(
        "https://github.com/pytorch/pytorch/issues/103749",
        "https://github.com/pytorch/pytorch/issues/27968",
    ),
    bad="""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        q = q / (q - q).norm(dim=-1, keepdim=True)
        scores = q @ k.transpose(-2, -1) * (d // self.heads) ** -0.5
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


model = Attention().eval()
inputs = torch.randn(3, 7, 32, generator=torch.Generator().manual_seed(0))
""",
    good="""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        q = q / (q.norm(dim=-1, keepdim=True) + 1e-6)
        scores = q @ k.transpose(-2, -1) * (d // self.heads) ** 0.5
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


model = Attention().eval()
inputs = torch.randn(3, 7, 32, generator=torch.Generator().manual_seed(0))
""",
    check=_check,
    explains=("AS203", "AS204", "AS302", "AS304", "AS401", "AS402", "AS405", "AS902", "AS903"),
)  # fmt: skip
