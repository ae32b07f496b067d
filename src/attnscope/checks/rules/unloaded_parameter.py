"""AS905: a parameter of the attention was left at its initial value when others were loaded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule, Skipped

if TYPE_CHECKING:
    from attnscope.checks.residual.unloaded import LeftOut
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]

_MOST_NAMED = 4


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.residual.unloaded import left_out

    if subject.model is None:
        raise Skipped("a function has no parameters: give a module")
    seen = [_of_load(each) for each in left_out(subject)]
    yield from seen or _by_values(subject)


def _of_load(each: LeftOut) -> Finding:
    """Tell what a load, watched while the model was built, left out."""
    names = each.names
    stored = ", ".join(each.unused[:_MOST_NAMED])
    told = (
        f"{_listed(names)} got back what {_they(names)} held before, as torch draws "
        f"{_them(names)}, while {len(each.load.changed)} other parameters got stored values"
        if each.kept
        else f"{_listed(names)} {_are(names)} missing in the state dict and {_are(names)} still as "
        f"first drawn; {len(each.load.unexpected)} stored tensors fit no name of the model: "
        f"{stored}{_more(each.unused)}"
    )
    return RULE.found(
        f"load_state_dict left weights of the attention out: {told}",
        {
            "parameters": list(names),
            "missing": len(each.load.missing),
            "unexpected": list(each.load.unexpected),
        },
        source=each.load.source,
        module=_module_of(names[0]),
    )


def _by_values(subject: Subject) -> Iterator[Finding]:
    """Tell weights that are as torch draws them from those of the rest, which are trained."""
    from attnscope.checks.initialising import loaded
    from attnscope.checks.residual.unloaded import evidence_of_training, unloaded_weights

    if subject.model is None:
        return
    trained = evidence_of_training(subject.model, {call.module for call in subject.calls})
    found = list(unloaded_weights(subject)) if trained is not None else []
    if not found:
        return
    names = tuple(each.name for each in found)
    first = found[0]
    how = (
        f"fills the range ±{first.bound:.4g} of its initialiser evenly, with {first.largest:.4g} "
        "as its largest entry"
        if first.bound is not None
        else "has independent normal entries and a bias of zeros"
    )
    yield RULE.found(
        f"{_listed(names)} {_are(names)} as torch draws {_them(names)}: {first.name} {how}; other "
        f"parts of the model are trained or loaded ({trained} is no longer all ones)",
        {
            "parameters": list(names),
            "largest": first.largest,
            "bound": first.bound,
            "trained": trained,
        },
        source=loaded(subject.run),
        module=_module_of(first.name),
    )


def _module_of(name: str) -> str:
    return name.rpartition(".")[0].rpartition(".")[0]


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names[:_MOST_NAMED]) + _more(names)


def _more(names: tuple[str, ...]) -> str:
    return f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""


def _are(names: tuple[str, ...]) -> str:
    return "are" if len(names) > 1 else "is"


def _they(names: tuple[str, ...]) -> str:
    return "they" if len(names) > 1 else "it"


def _them(names: tuple[str, ...]) -> str:
    return "them" if len(names) > 1 else "it"


RULE = Rule(
    code="AS905",
    name="unloaded-parameter",
    severity="warning",
    what=(
        "A weight of the attention still holds what its initialiser drew, although the rest of the "
        "model was loaded."
    ),
    why=(
        "A load_state_dict(strict=False), renamed keys, a prefix that was not removed or a fused "
        "projection leave attention random in a trained model. Nothing raises; the outputs are "
        "noise that looks like a bad checkpoint."
    ),
    fix=(
        "Read what load_state_dict returns: missing_keys must be empty. Rename or split the stored "
        "tensors until they fit, and load with strict=True."
    ),
    proof=(
        "On the command line every load_state_dict is watched while the model is built: the rule "
        "fires where weights of the attention were missing, stored tensors that fit no name could "
        "be theirs, and nothing has filled them since; or where the state dict was filled up with "
        "the model's own values. Otherwise the values decide: a weight counts as drawn where its "
        "entries are independent and fill the exact range of nn.Linear's or Xavier's initialiser "
        "(or are normal, with a bias of exact zeros among trained biases), and the model as "
        "trained where some norm of it, which all start at 1, has weights that differ."
    ),
    limits=(
        "Without a norm, nothing says that a model is trained. Adapters, gates and frozen parts "
        "are left alone. A layer that was added on purpose and is yet to be trained looks the "
        "same."
    ),
    sources=("https://github.com/google-ai-edge/litert-torch/issues/6",),
    bad="""
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)

    def forward(self, x):
        h = self.norm(x)
        return x + self.attention(h, h, h)[0]


def model():
    encoder = Encoder()
    shapes = encoder.state_dict()
    stored = {name: 0.2 * torch.randn(value.shape) for name, value in shapes.items()}
    stored = {name.replace("attention.", "self_attn."): value for name, value in stored.items()}
    encoder.load_state_dict(stored, strict=False)
    return encoder.eval()


inputs = torch.randn(3, 7, 32)
""",
    good="""
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)

    def forward(self, x):
        h = self.norm(x)
        return x + self.attention(h, h, h)[0]


def model():
    encoder = Encoder()
    shapes = encoder.state_dict()
    stored = {name: 0.2 * torch.randn(value.shape) for name, value in shapes.items()}
    encoder.load_state_dict(stored)
    return encoder.eval()


inputs = torch.randn(3, 7, 32)
""",
    check=_check,
    as_it_starts=True,
)  # fmt: skip
