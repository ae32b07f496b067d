"""Faults of Hugging Face architectures themselves: what a check rightly tells, and its proof.

`proofs.py` reproduces each on the plain model. `quiet.py` expects exactly these codes: one more is
an alarm, and one that is no longer told has to be taken out of the table.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PROVEN", "Fault"]


@dataclass(frozen=True, slots=True)
class Fault:
    """A code that is right to be told of an architecture, and what proves it."""

    code: str
    proof: str


_LEAK = Fault(
    "AS201",
    "the causal mask is made only without use_cache, which the config turns on: query 0 of the "
    "decoder gives 0.86 of its weight to later tokens, in training too",
)
_BOTH_WAYS = Fault(
    "AS201",
    "context is 1 everywhere, so that all tokens see all: a cached step gives other logits than "
    "the full pass, and generate() other tokens with use_cache than without",
)
_WINDOW = Fault(
    "AS601",
    "the cache keeps sliding_window tokens and the full pass attends to all: with a window of 4, "
    "one token a step departs by 0.03 to 0.18 from position 4 on, with one of 64 by nothing",
)
_ONE_WEIGHT = Fault(
    "AS101",
    "w_g is one column and the softmax runs over it: the output is the same, bit for bit, when "
    "w_g is multiplied by -1000, and its gradient is 0",
)
_ZERO_TABLES = Fault(
    "AS501",
    "made from a config, both tables of positions are all zero and need no gradient: nothing "
    "fills in the sines",
)
_NO_MASK = Fault(
    "AS801",
    "without a mask, sdpa falls back to is_causal and eager sees all: same weights, same inputs, "
    "and the outputs differ by 3.6 of 5.0",
)
_BY_HEAD = Fault(
    "AS503",
    "position_ids count the heads: cos and sin are (1, heads, head_dim), and shuffled tokens get "
    "the same attention, shuffled, to 5e-8",
)
_WIDE = Fault(
    "AS302",
    "q, k and v are drawn with a standard deviation of 1, whatever the width",
)
_LEFT_TO_RIGHT = Fault(
    "AS801",
    "is_causal is True in the encoder of pictures: without a mask sdpa reads the patches left to "
    "right, where other last patches move the first one by 0; with eager they move it by 3.1",
)
_NO_PADDING = Fault(
    "AS208",
    "attention_mask is taken as 0 and -10000 where it is 1 and 0, so that .int() makes 1 of both: "
    "hiding the second half of the tokens moves the first by exactly 0",
)
_STEP_WITHOUT_MASK = Fault(
    "AS601",
    "a mask is made only for more than one token: where prompts of the decoder are padded on the "
    "left, a cached step attends to their padding; decoder_attention_mask moves the full pass by "
    "0.002, and the step by exactly 0",
)
_PATCHES = Fault(
    "AS601",
    "a step is made into patches without the bytes before it: with the cache, the last logits of a "
    "prompt differ by 2.7 of 3.0 from those of the full pass",
)

PROVEN: dict[str, tuple[Fault, ...]] = {
    "blt": (_PATCHES,),
    "blt_global_transformer": (_NO_MASK,),
    "cpmant": (_BOTH_WAYS,),
    "fsmt": (_LEAK,),
    "led": (_STEP_WITHOUT_MASK,),
    "moshi": (_WINDOW,),
    "neucodec": (_BY_HEAD,),
    "phi4_multimodal_vision": (_WIDE, _LEFT_TO_RIGHT),
    "swiftformer": (_ONE_WEIGHT,),
    "vit_mae": (_ZERO_TABLES,),
    "xcodec2": (_BY_HEAD,),
    "yoso": (_NO_PADDING,),
}
"""By the name that `attnscope check arch:NAME` takes."""
