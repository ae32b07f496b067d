"""AS905: a parameter of the attention was left at its initial value when others were loaded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule, Skipped

if TYPE_CHECKING:
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]

_MOST_NAMED = 4


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.definitions import loaded
    from attnscope.checks.residual.unloaded import evidence_of_training, unloaded_weights

    if subject.model is None:
        raise Skipped("a function has no parameters: give a module")
    trained = evidence_of_training(subject.model, {call.module for call in subject.calls})
    if trained is None:
        return
    found = list(unloaded_weights(subject))
    if not found:
        return
    names = [each.name for each in found]
    more = len(names) - _MOST_NAMED
    first = found[0]
    how = (
        f"fills the range ±{first.bound:.4g} of its initialiser evenly, with {first.largest:.4g} "
        "as its largest entry"
        if first.bound is not None
        else "has independent normal entries and a bias of zeros"
    )
    yield RULE.found(
        f"{', '.join(names[:_MOST_NAMED])}{f' and {more} more' if more > 0 else ''} "
        f"{'are' if len(names) > 1 else 'is'} as torch draws "
        f"{'them' if len(names) > 1 else 'it'}: {first.name} {how}; other parts of the model are "
        f"trained or loaded ({trained} is no longer all ones)",
        {
            "parameters": names,
            "largest": first.largest,
            "bound": first.bound,
            "trained": trained,
        },
        source=loaded(subject.run),
        module=first.name.rpartition(".")[0].rpartition(".")[0],
    )


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
        "Read what load_state_dict returns: missing_keys must be empty. Rename or split the "
        "stored tensors until they fit, and load with strict=True."
    ),
    proof=(
        "A weight counts as drawn where its entries are independent and fill the exact range of "
        "nn.Linear's or Xavier's initialiser (or are normal, with a bias of exact zeros among "
        "trained biases). The rule fires where some norm of the model, which all start at 1, has "
        "weights that differ."
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
)  # fmt: skip
