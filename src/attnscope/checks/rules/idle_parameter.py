"""AS903: a parameter of the attention takes no part, or is never updated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule, Skipped

if TYPE_CHECKING:
    from attnscope.calls.source import Source
    from attnscope.checks.residual.frozen import Frozen
    from attnscope.checks.residual.unlisted import Unlisted
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]

_MOST_NAMED = 4


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.probes.toggled_parameters import moved_by_parameters
    from attnscope.checks.residual.cancelling import cancelling_parameters
    from attnscope.checks.residual.cut_off import cut_off_parameters
    from attnscope.checks.residual.frozen import frozen_alone
    from attnscope.checks.residual.idle import idle_parameters
    from attnscope.checks.residual.unlisted import unlisted_parameters

    if subject.model is None:
        raise Skipped("a function has no parameters: give a module")
    yield from map(_of_unlisted, unlisted_parameters(subject))
    if not subject.base.is_faithful:
        raise Skipped(
            "the run can't be written down whole, so that nothing can be said to reach no output"
        )
    for name, line in cancelling_parameters(subject):
        yield _of_cancelling(name, line)
    for name, line in cut_off_parameters(subject):
        yield _of_cut_off(name, line)
    for each in frozen_alone(subject):
        yield _of_frozen(each)
    found = list(idle_parameters(subject))
    if not found:
        return
    if moved_by_parameters(subject, [name for idle in found for name in idle.names]) > 0.0:
        found = [idle for idle in found if moved_by_parameters(subject, idle.names) == 0.0]
    for idle in found:
        shown = ", ".join(idle.names[:_MOST_NAMED])
        more = len(idle.names) - _MOST_NAMED
        tail = f" and {more} more" if more > 0 else ""
        verb, it = ("is", "it") if len(idle.names) == 1 else ("are", "them")
        how = f"read, but what is made of {it} reaches no output" if idle.read else "never read"
        yield RULE.found(
            f"{shown}{tail} {verb} {how}: with other values the output moves by exactly 0",
            {"parameters": list(idle.names), "read": idle.read, "moved": 0.0},
            source=idle.source,
            module=idle.owner,
            severity="note" if idle.last or idle.stock else "warning",
        )


def _of_unlisted(each: Unlisted) -> Finding:
    path = ".".join(part for part in (each.owner, each.name) if part)
    many = len(each.tensors)
    what = f"{path} {each.kind}" if path else "the forward makes parameters anew in every run"
    return RULE.found(
        f"{what}: outputs give {many} tensor{'s' if many > 1 else ''} ({each.count} numbers) "
        f"there a gradient of up to {each.gradient:.2g}, and model.parameters() lists none of them",
        {"tensors": many, "numbers": each.count, "largest_gradient": each.gradient},
        source=each.source,
        module=each.owner,
        fix=(
            "Make it in __init__, as an attribute of the module: nn.Parameter, nn.ModuleList in "
            "the place of a list, nn.ModuleDict in the place of a dict."
        ),
    )


def _of_cut_off(name: str, line: Source | None) -> Finding:
    return RULE.found(
        f"{name} is joined to what attention computes, and the slice here leaves nothing of it: "
        "with other values the output moves by exactly 0",
        {"parameters": [name], "read": True, "moved": 0.0},
        source=line,
        module=name.rpartition(".")[0],
        fix="Slice after the operation that it is meant for: a sink is dropped behind the softmax.",
    )


def _of_frozen(each: Frozen) -> Finding:
    names = ", ".join(each.names)
    others = " and ".join(part for part in ("q", "k", "v") if part != each.part)
    return RULE.found(
        f"{names} ({each.part}) is frozen and never updated, where the projections of {others} "
        f"beside it are trained, and {each.trained} matrices of the model in all",
        {"parameters": list(each.names), "part": each.part, "trained_matrices": each.trained},
        source=each.source,
        call=each.located.call,
        severity="note" if each.meant else "warning",
        fix=(
            "A filter by a part of a name meets more than was meant (key_embedding, attention.key):"
            " compare whole names, and print what is frozen. Freeze q, k and v together, or none."
        ),
    )


def _of_cancelling(name: str, line: Source | None) -> Finding:
    return RULE.found(
        f"{name} is added to all scores of a row alike, and the softmax takes that out again: with "
        "other values every weight stays what it was",
        {"parameters": [name], "read": True, "moved": 0.0},
        source=line,
        module=name.rpartition(".")[0],
        fix="A sink is one more column of the scores; a bias has to differ from key to key.",
    )


RULE = Rule(
    code="AS903",
    name="idle-parameter",
    severity="warning",
    what=(
        "A parameter of an attention module takes no part in what it computes, or is never "
        "updated. Nothing reads it, it is frozen alone, or model.parameters() doesn't list it "
        "(kept in a list, dict or global, no nn.Parameter, made anew in each forward)."
    ),
    why=(
        "A projection, norm, temperature or bias that was meant to be there is not; it never "
        "learns, weight decay shrinks it, and a checkpoint loads without complaint."
    ),
    fix="Use it in the forward, or remove it; build an optional one only where it is used.",
    proof=(
        "Every operation of a run is written down: the rule fires where no way leads from a "
        "parameter to any output, or where NaN in its place is gone behind a slice. The parameters "
        "are then given other values, and the output must move by exactly 0. A projection is never "
        "updated where one of q, k and v alone is frozen, while the other two, the rest of the "
        "module and most of the model are trained. A tensor is unlisted where the outputs' graph "
        "leads to it, as autograd says itself, and no module lists it; two runs show what is made "
        "anew."
    ),
    limits=(
        "Only the modules that attended in this run are looked at, but for what no module lists. A "
        "part that a module keeps by its __dict__, so that it is not listed, is another's, and "
        "what the first run makes and registers counts as listed. Left alone: frozen parameters "
        "beside trained ones, experts, poolers, heads, copies of what is used in fused form, and "
        "what the code uses only where an argument is given. The last layers of a stack of which "
        "an earlier layer's output is taken, and attention that a library wrote and "
        "computed with no line of the author's own, give a note; so does a projection that the "
        "code freezes by its name and with nothing else, or that is frozen out of sight."
    ),
    sources=(
        "https://github.com/huggingface/diffusers/issues/11903",
        "https://github.com/INK-USC/RE-Net/issues/6",
    ),
    bad="""
import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        return F.scaled_dot_product_attention(q, k, v)


model = Attention().eval()
inputs = torch.randn(3, 7, 32)
""",
    good="""
import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        return self.out(F.scaled_dot_product_attention(q, k, v))


model = Attention().eval()
inputs = torch.randn(3, 7, 32)
""",
    check=_check,
    explains=("AS501",),
    as_it_starts=True,
)  # fmt: skip
