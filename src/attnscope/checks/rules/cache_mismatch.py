"""AS601: cached decoding differs from the full pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule, Skipped

if TYPE_CHECKING:
    from attnscope.checks.decoding.departure import Departure
    from attnscope.checks.probes.cached_steps import CachedSteps
    from attnscope.checks.subject.subject import Subject


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.probes.cached_steps import ANOTHER, cached_steps

    if not subject.calls and subject.has_library_config:
        raise Skipped("no attention was seen, and what else a model keeps is not looked at")
    probed = cached_steps(subject)
    if probed.departures:
        steps = [each for each in probed.departures if each.stepper is not None]
        yield (
            _of_step(subject, probed, steps[0])
            if steps
            else _of_request(subject, probed.departures[0])
        )
    elif any(each.way == ANOTHER for each in probed.raised):
        yield _of_raising_request(subject, probed)
    elif _never_runs(subject, probed):
        yield _of_error(probed)
    elif probed.middle_let_go is not None:
        first, last = probed.middle_let_go
        raise Skipped(
            f"the cache keeps the first {first} and the last {last} tokens on purpose, and the "
            "full pass has all of them"
        )
    elif probed.unplaced:
        yield _of_positions(subject, probed, probed.unplaced[0])


def _of_step(subject: Subject, probed: CachedSteps, found: Departure) -> Finding:
    from attnscope.checks.decoding.locating import parting_of, runs_of
    from attnscope.checks.decoding.ties import chooses_among_equals

    place, runs = parting_of(subject, found), runs_of(subject, found)
    if place is not None and place.made is not None and runs is not None and not place.in_full:
        _, step, _ = runs
        if chooses_among_equals(step, place.made):
            raise Skipped(
                f"{place.operation} chooses among equal numbers, and takes others of them in a "
                "step than in the full pass: give weights that tell them apart"
            )
    told = f"; {place.operation} {place.what}" if place is not None else ""
    return RULE.found(
        f"decoding {found.way} departs from the full pass at position {found.position} (step "
        f"{found.step}), by up to {found.largest:.2g} (rounding {found.limit:.1g}){told}",
        _evidence(probed, found) | ({"operation": place.operation} if place is not None else {}),
        source=place.line if place is not None else None,
        module="",
    )


def _of_positions(subject: Subject, probed: CachedSteps, found: Departure) -> Finding:
    """Note that steps need to be told their positions: `generate` does, a loop may not."""
    from attnscope.checks.decoding.locating import parting_of

    place = parting_of(subject, found)
    return RULE.found(
        f"decoding {found.way} without position_ids departs from the full pass at position "
        f"{found.position}, by up to {found.largest:.2g} (rounding {found.limit:.1g}); with "
        "position_ids, as generate() hands them on, it agrees",
        _evidence(probed, found),
        source=place.line if place is not None else None,
        module="",
        severity="note",
        fix="Hand position_ids to every step, or let them begin at the number of cached tokens.",
    )


def _of_request(subject: Subject, found: Departure) -> Finding:
    from attnscope.checks.decoding.locating import line_left_behind

    return RULE.found(
        "a request that follows another one, after a reset, differs from the same request in a "
        f"fresh module from position {found.position} on, by up to {found.largest:.2g} "
        f"(rounding {found.limit:.1g}): something of the first is still there",
        {
            "position": found.position,
            "largest": found.largest,
            "rounding": found.limit,
            "way": found.way,
        },
        source=line_left_behind(subject),
        module="",
    )


def _of_raising_request(subject: Subject, probed: CachedSteps) -> Finding:
    from attnscope.checks.decoding.locating import line_left_behind
    from attnscope.checks.lines import line_of
    from attnscope.checks.probes.cached_steps import ANOTHER

    error = next(each.error for each in probed.raised if each.way == ANOTHER)
    text = " ".join(str(error).split())[:160]
    return RULE.found(
        "a request that follows another one, after a reset, raises, and does not in a fresh "
        f"module: something of the first is still there; {text}",
        {"way": ANOTHER, "error": text},
        source=line_left_behind(subject) or line_of(error),
        module="",
    )


def _never_runs(subject: Subject, probed: CachedSteps) -> bool:
    """Return whether a declared cache can't be used at all: every way of several steps raised."""
    from attnscope.checks.probes.cached_steps import ANOTHER

    several = [way for way in probed.ways if way not in {"at once", ANOTHER}]
    return (
        "cache" in subject.expect
        and not several
        and any(isinstance(each.error, RuntimeError) for each in probed.raised)
    )


def _of_error(probed: CachedSteps) -> Finding:
    from attnscope.checks.lines import line_of

    raised = [each for each in probed.raised if isinstance(each.error, RuntimeError)]
    first = next((each for each in raised if "cat" in _code(each.error)), raised[0])
    text = " ".join(str(first.error).split())[:160]
    return RULE.found(
        "decoding with the declared cache raises in every way of several "
        f"steps; {first.way}: {text}",
        {"ways": [each.way for each in probed.raised], "error": text},
        source=line_of(first.error),
        module="",
    )


def _code(error: BaseException) -> str:
    from attnscope.checks.lines import line_of

    source = line_of(error)
    return source.code if source is not None else ""


def _evidence(probed: CachedSteps, found: Departure) -> dict[str, object]:
    return {
        "way": found.way,
        "step": found.step,
        "position": found.position,
        "largest": found.largest,
        "rounding": found.limit,
        "ways_that_differ": [each.way for each in probed.departures],
        "ways_that_agree": [
            way for way in probed.ways if way not in {each.way for each in probed.departures}
        ],
    }


RULE = Rule(
    code="AS601",
    name="cache-mismatch",
    severity="error",
    what=(
        "Decoding with a cache, token by token or in chunks, gives other results than the full "
        "pass over the same tokens, or a request depends on the one before it."
    ),
    why=(
        "Training and scoring use the full pass, generation the cache: what is generated is not "
        "what the model learned, and nothing raises. Positions that start anew, keys joined in "
        "another order or along another axis, entries that are dropped or kept too long, and a "
        "cache that is not emptied all look like a weak model."
    ),
    fix=(
        "Continue positions at the number of tokens that are cached, keep keys as they enter "
        "attention (rotated once), join old before new along the axis of tokens, hand on all of "
        "them, and count the tokens after they are written."
    ),
    proof=(
        "A copy of the model, in float64 where it runs so, is given its tokens one a step, after a "
        "prompt, and in chunks, each time with the cache that the step before left; where a mask "
        "says what is padding, prompts that are padded on the left as well. Outputs must agree "
        "with the full pass within 256 roundings of a row's largest entry, or 16 of a cache that "
        "is kept in half precision. The first step "
        "that departs is run again next to the full pass, operation by operation: the line is that "
        "of the first one whose result is not what the full pass has at the same tokens."
    ),
    limits=(
        "The cache is Hugging Face's, or what expect cache names, or an argument called so. Models "
        "whose positions see later ones are not put to it. A cache of bounded size is compared as "
        "the full pass limits itself, and not at all where it keeps the first and the last tokens "
        "on purpose. Hugging Face models that need position_ids at each step get a note. A choice "
        "among equal numbers (topk of gates that start at zero) proves nothing, and is skipped."
    ),
    sources=(
        "https://github.com/huggingface/transformers/issues/37574",
        "https://github.com/huggingface/transformers/issues/19045",
        "https://github.com/lucidrains/native-sparse-attention-pytorch/issues/20",
    ),
    bad="""
import torch
from torch import nn
from torch.nn import functional as F


class Decoder(nn.Module):
    def __init__(self, vocabulary=40, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.embedding = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(64, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, vocabulary)

    def forward(self, ids, past=None):
        b, t = ids.shape
        x = self.embedding(ids) + self.positions(torch.arange(t))
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        visible = torch.ones(t, k.shape[2], dtype=torch.bool).tril(k.shape[2] - t)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=visible)
        return self.out(y.transpose(1, 2).reshape(b, t, -1)), (k, v)


model = Decoder().eval()
inputs = torch.randint(0, 40, (2, 9))
expect = {"causal": True, "cache": "past"}
""",
    good="""
import torch
from torch import nn
from torch.nn import functional as F


class Decoder(nn.Module):
    def __init__(self, vocabulary=40, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.embedding = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(64, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, vocabulary)

    def forward(self, ids, past=None):
        b, t = ids.shape
        seen = 0 if past is None else past[0].shape[2]
        x = self.embedding(ids) + self.positions(torch.arange(seen, seen + t))
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        visible = torch.ones(t, k.shape[2], dtype=torch.bool).tril(k.shape[2] - t)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=visible)
        return self.out(y.transpose(1, 2).reshape(b, t, -1)), (k, v)


model = Decoder().eval()
inputs = torch.randint(0, 40, (2, 9))
expect = {"causal": True, "cache": "past"}
""",
    check=_check,
)  # fmt: skip
