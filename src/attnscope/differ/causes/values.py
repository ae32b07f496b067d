"""A stage that differs because a weight has other values than its counterpart."""

from __future__ import annotations

import contextlib

from attnscope.differ.weights import WeightMap
from attnscope.errors import AttnscopeError
from attnscope.explain import Explanation, Scene

__all__ = ["explain_weights"]

_SHOWN = 3


def explain_weights(scene: Scene, pairs: WeightMap | None) -> Explanation | None:
    """Return which weights' values, taken from the reference, make the stage agree."""
    part = scene.candidate.parts.get(scene.stage)
    if part is None or pairs is None:
        return None
    values = {name: number for number, name in part.parameters.items()}
    differing = {one.candidate: one for one in pairs.differing if one.candidate in values}
    for names in (*([name] for name in differing), list(differing)):
        given = {values[name]: pairs.value(name).double() for name in names}
        with contextlib.suppress(AttnscopeError, RuntimeError):
            remains = scene.gap(part.run(given=given), mends=True) if given else None
            if remains is not None:
                said = [
                    f"{name} differs by up to {differing[name].largest:.3g} from "
                    f"{', '.join(differing[name].references)} ({differing[name].how})"
                    for name in names[:_SHOWN]
                ]
                more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
                return Explanation("weight-values", "; ".join(said) + more, remains)
    return None
