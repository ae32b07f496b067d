"""Lines of test files that a comment marks, to be compared with the lines that findings give."""

from __future__ import annotations

from pathlib import Path


def marked(file: str, mark: str) -> int:
    """Return the only line of a file that ends with `# mark`."""
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    found = [at for at, line in enumerate(lines, start=1) if line.endswith(f"# {mark}")]
    assert len(found) == 1, (mark, found)
    return found[0]
