"""AS801: two ways to compute the same attention give different results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule, Skipped

if TYPE_CHECKING:
    from attnscope.checks.probes.other_implementation import Parting
    from attnscope.checks.residual.own_backward import OwnBackward
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.probes.backends import backends
    from attnscope.checks.probes.other_implementation import other_implementation
    from attnscope.checks.residual.own_backward import own_backwards

    for each in own_backwards(subject):
        yield _of_backward(each)
    told = backends(subject)
    try:
        parting = other_implementation(subject)
    except Skipped:
        if not told:
            raise
        parting = None
    if parting is not None:
        yield _of_implementation(parting)
    for found in told:
        tail = f": {found.reason}" if found.reason else ""
        yield RULE.found(
            f"with {found.switch} the output moves by {found.largest:.2g} (noise "
            f"{found.noise:.1g}){tail}",
            {
                "switch": found.switch,
                "moved_by": found.largest,
                "noise": found.noise,
                **({"difference": found.reason} if found.reason else {}),
                **({"recomputed": found.explained} if found.explained else {}),
            },
            source=found.source,
            call=found.call,
            fix=_FIX_OF_BLOCKS if found.in_blocks else None,
        )


_FIX_OF_BLOCKS = (
    "Whenever the running maximum grows, multiply what was gathered, the sum of the weights and "
    "the context alike, by exp(old maximum - new maximum), and divide by the sum once, at the end."
)


def _of_implementation(found: Parting) -> Finding:
    tail = f": the same q, k and v of that call {found.explained}" if found.explained else ""
    call = found.call
    where = f", from call {call.index} on" if call is not None and found.explained else ""
    return RULE.found(
        f"with attn_implementation={found.other!r} instead of {found.own!r} the output moves by "
        f"{found.largest:.2g} at real tokens (rounding {found.limit:.1g}){where}{tail}",
        {
            "switch": f"attn_implementation={found.other!r}",
            "moved_by": found.largest,
            "noise": found.limit,
            "padding_written": found.padded,
            **({"recomputed": found.explained} if found.explained else {}),
        },
        source=found.source,
        call=call,
    )


def _of_backward(found: OwnBackward) -> Finding:
    return RULE.found(
        f"{found.function}.backward is not the derivative of its forward: along one direction of "
        f"{found.stage} it says {found.said:.3g}, central differences of the forward in float64 "
        f"say {found.true:.3g}",
        {
            "function": found.function,
            "stage": found.stage,
            "backward": found.said,
            "derivative": found.true,
        },
        source=found.source,
        call=found.call,
        fix=(
            "Compare it with torch.autograd.gradcheck in float64: ds = p * (dp - (dp * p).sum(-1, "
            "keepdim=True)), and the scale of q·k belongs into dq and dk both."
        ),
    )


RULE = Rule(
    code="AS801",
    name="backend-disagreement",
    severity="warning",
    what=(
        "A model has two ways to compute its attention (a fused kernel and a manual one, with and "
        "without weights, train and eval), and they give different results on the same inputs, "
        "beyond rounding. Or its own backward is not the derivative of its forward."
    ),
    why=(
        "Which one runs depends on the device, on a flag, on the length or on whether weights are "
        "asked for: the model that is evaluated is not the one that was trained."
    ),
    fix=(
        "Give both ways the same scale, mask, bias and cap: hand scale= and attn_mask= to the "
        "kernel, and where it has no such argument (a soft cap) don't take that way."
    ),
    proof=(
        "Flags of the author's modules that choose a kernel (names with flash, fused, sdpa and the "
        "like), names of ways (backend = 'sdpa'), arguments that ask for weights, and train mode "
        "where nothing is random are turned over, one at a time: the main output must not move by "
        "more than the noise of the run and 1e-4 of its largest entry. Fused kernels are also run "
        "by every backend that takes them, on the very tensors with their strides and on "
        "contiguous copies. Attention in blocks is compared with the softmax over all keys of its "
        "q, k and v, in float64 (0.1 %). A Hugging Face model is run whole by its other "
        "attn_implementation (eager or sdpa; eager, for a function of one's own), with padding "
        "where its inputs can have some, and compared at real tokens: 4 times the noise, and 1e-4 "
        "of the largest entry. The backward of a torch.autograd.Function that holds attention is "
        "compared with central differences of its forward in float64 (2 %)."
    ),
    limits=(
        "Only backends of this machine are run, and whole models of no more than 60 million "
        "parameters. A way that has parameters of its own is another model. Rows that are not "
        "finite are left to AS203 and AS802. A mask of booleans that sdpa takes and eager adds as "
        "numbers is no matter of a model that runs by sdpa."
    ),
    sources=(
        "https://github.com/pytorch/pytorch/issues/116333",
        "https://github.com/huggingface/pytorch-image-models/pull/2280",
    ),
    bad="""
import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width=32, heads=4, flash=True):
        super().__init__()
        self.heads, self.flash = heads, flash
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        if self.flash:
            y = F.scaled_dot_product_attention(q, k, v)
        else:
            y = (q @ k.transpose(-2, -1) * d**-0.5).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, n, d))


model = Attention().eval()
inputs = torch.randn(3, 7, 32, generator=torch.Generator().manual_seed(0))
""",
    good="""
import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width=32, heads=4, flash=True):
        super().__init__()
        self.heads, self.flash = heads, flash
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        if self.flash:
            y = F.scaled_dot_product_attention(q, k, v)
        else:
            y = (q @ k.transpose(-2, -1) * (d // self.heads) ** -0.5).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, n, d))


model = Attention().eval()
inputs = torch.randn(3, 7, 32, generator=torch.Generator().manual_seed(0))
""",
    check=_check,
)  # fmt: skip
