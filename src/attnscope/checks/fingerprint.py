"""What a finding is recognised by after lines have moved: its code, its module, its line's text."""

from __future__ import annotations

import hashlib

from attnscope.checks.finding import Finding

__all__ = ["KIND", "fingerprint", "line_of"]

KIND = "attnscopeFault/v1"
"""Name of this kind of fingerprint, with a number that changes when what is hashed changes."""

_LENGTH = 32


def fingerprint(finding: Finding) -> str:
    """Return 32 hexadecimal digits that stay the same wherever in its file the line stands."""
    parts = (finding.code, finding.module, line_of(finding))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:_LENGTH]


def line_of(finding: Finding) -> str:
    """Return the text of the line at fault, however it is indented; "" where there is none."""
    return " ".join(finding.source.code.split()) if finding.source is not None else ""
