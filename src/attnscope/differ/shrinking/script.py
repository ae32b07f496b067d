"""A failure written down as a program: both sides, the smallest inputs, and one assertion."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from attnscope.differ.shrinking.smallest import Shrunk

__all__ = ["write_script"]

_TEMPLATE = '''"""{title}"""

{imports}

{seed}inputs = {inputs}
{smaller}
if __name__ == "__main__":
    wishes = Wishes(inputs=f"{{__file__}}:inputs"{attention})
    sides = both({candidate}, {reference}, wishes)
    names = (sides.candidate.name, sides.reference.name)
    with sides.importing():
        result = attnscope.verify(
            {candidate_run},
            {reference_run},
            inputs=inputs,
            names=names,
{options}
        )
    print(result)
    assert result.equal
'''


_SMALLER = '''

def smaller(model):
    """Build a model again from a smaller config."""
    config = copy.deepcopy(model.config)
    for name, value in {config}.items():
        setattr(config, name, value)
    torch.manual_seed(0)
    return type(model)(config).train(model.training)

'''


def write_script(shrunk: Shrunk, candidate: str, reference: str, attention: str | None) -> str:
    """Return the program; it takes targets apart as the command line does, from the same folder."""
    inputs = _written_inputs(shrunk)
    imports = ["import torch", "", "import attnscope", "from attnscope.targets import Wishes, both"]
    if "inf" in inputs or "nan" in inputs:
        imports.insert(0, "from math import inf, nan\n")
    built = "smaller(sides.{}.run)" if shrunk.config else "sides.{}.run"
    if shrunk.config:
        imports.insert(0, "import copy\n")
    return _TEMPLATE.format(
        title=_title(shrunk, candidate, reference),
        imports="\n".join(imports),
        seed="torch.manual_seed(0)\n" if shrunk.seeded else "",
        inputs=inputs,
        smaller=_SMALLER.format(config=dict(shrunk.config)) if shrunk.config else "",
        candidate_run=built.format("candidate"),
        reference_run=built.format("reference"),
        attention=f", attention={_quoted(attention)}" if attention is not None else "",
        candidate=_quoted(candidate),
        reference=_quoted(reference),
        options="\n".join(f"            {option}," for option in _options(shrunk)),
    )


def _quoted(words: str) -> str:
    """Return a string as Python writes it, in double quotes."""
    return json.dumps(words)


def _title(shrunk: Shrunk, candidate: str, reference: str) -> str:
    first = shrunk.difference
    why = f" ({first.explanation.key})" if first.explanation is not None else ""
    title = f"{candidate} differs from {reference}, first at {first.stage}{why}: {shrunk}."
    return title.replace("\\", "/").replace('"', "'")


def _options(shrunk: Shrunk) -> list[str]:
    """Return the arguments of `verify` that are not its defaults."""
    options = shrunk.options
    written = ["matrix=False"]
    if not options.gradients:
        written.append("gradients=False")
    if options.expect:
        written.append(f"expect={dict(options.expect)!r}")
    if options.weights != "auto":
        written.append(f"weights={_weights(options.weights)!r}")
    if options.seed:
        written.append(f"seed={options.seed}")
    if options.factor != 1.0:
        written.append(f"factor={options.factor}")
    return written


def _weights(weights: Any) -> Any:
    return dict(weights) if isinstance(weights, Mapping) else str(weights)


def _written_inputs(shrunk: Shrunk) -> str:
    inputs, seeded = shrunk.inputs, set(shrunk.seeded)
    if isinstance(inputs, Mapping):
        lines = [f"    {_quoted(n)}: {_written(v, seeded=n in seeded)}," for n, v in inputs.items()]
        return "\n".join(["{", *lines, "}"])
    lines = [f"    {_written(v, seeded=at in seeded)}," for at, v in enumerate(inputs)]
    return "\n".join(["(", *lines, ")"])


def _written(value: Any, *, seeded: bool = False) -> str:
    """Return the expression that makes a value again; floats from the seed where they may be."""
    if isinstance(value, tuple | list):
        inner = ", ".join(_written(each) for each in value)
        return f"({inner},)" if isinstance(value, tuple) else f"[{inner}]"
    if not isinstance(value, Tensor):
        return repr(value)
    usual = {torch.float32, torch.int64, torch.bool}
    kind = "" if value.dtype in usual else f", dtype={value.dtype}"
    if seeded:
        return f"torch.randn({', '.join(map(str, value.shape))}{kind})"
    if not value.numel():
        return f"torch.zeros({tuple(value.shape)}, dtype={value.dtype})"
    return f"torch.tensor({value.detach().cpu().tolist()!r}{kind})"
