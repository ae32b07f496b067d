"""Root-mean-square norm, as it stands between the projections of latent attention."""

from __future__ import annotations

import numpy as np

from attnscope.reference.arrays import sum_to
from attnscope.reference.axes import AnyFloat, Vector
from attnscope.reference.given import fit, gradient_of, number, real

__all__ = ["rms_norm", "rms_norm_backward"]


def rms_norm(x: AnyFloat, gain: Vector, eps: float = 1e-6) -> AnyFloat:
    """Return gain · x / √(mean x² + eps), over the last axis.

    Raises:
        InputError: a gain of another width, or an eps below 0.

    Source: Zhang & Sennrich 2019, "Root Mean Square Layer Normalization", eq. 4. Elsewhere:
    ``torch.nn.RMSNorm`` (there eps is the spacing of the type unless given), ``LlamaRMSNorm``.

    >>> rms_norm(np.array([3.0, 4.0]), np.ones(2), eps=0.0).round(4)
    array([0.8485, 1.1314])
    """
    x, gain, eps = _taken("taking the RMS norm", x, gain, eps)
    return np.asarray(gain * x / _root(x, eps))


def rms_norm_backward(
    gradient: AnyFloat, x: AnyFloat, gain: Vector, eps: float = 1e-6
) -> tuple[AnyFloat, Vector]:
    """Return the gradients of x and of the gain from that of `rms_norm`.

    With r the root and h = gain · gradient: ``h / r - x · mean(h · x) / r³``, and the sum over all
    rows of ``gradient · x / r``.

    >>> of_x, of_gain = rms_norm_backward(np.array([1.0, 0.0]), np.array([1.0, 1.0]), np.ones(2), 0)
    >>> of_x, of_gain
    (array([ 0.5, -0.5]), array([1., 0.]))
    """
    doing = "taking the gradient of the RMS norm"
    x, gain, eps = _taken(doing, x, gain, eps)
    gradient = gradient_of(doing, gradient, x.shape)
    root, scaled = _root(x, eps), gain * gradient
    pull = (scaled * x).mean(-1, keepdims=True)
    of_gain = sum_to(np.asarray(gradient * x / root), np.shape(gain))
    return np.asarray(scaled / root - x * pull / root**3), of_gain


def _taken(doing: str, x: object, gain: object, eps: object) -> tuple[AnyFloat, Vector, float]:
    found, gains = real(doing, "x", x, axes=1), real(doing, "gain", gain)
    fit(
        doing,
        {"x": found.shape, "gain": gains.shape},
        "give one gain for each number of the last axis",
        holds=gains.shape in {(), (1,), found.shape[-1:]},
    )
    return found, gains, number(doing, "eps", eps, least=0)


def _root(x: AnyFloat, eps: float) -> AnyFloat:
    return np.asarray(np.sqrt(np.square(x).mean(-1, keepdims=True) + eps))
