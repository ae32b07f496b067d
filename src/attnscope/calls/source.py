"""Where in the user's or a library's code something happened."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Source:
    """One place in source code: `file:line`, the function around it and the line itself."""

    file: str
    line: int
    function: str
    code: str = ""

    def __str__(self) -> str:
        """Return `file:line` as editors and terminals make it clickable."""
        return f"{self.file}:{self.line}"

    def to_json(self) -> dict[str, str | int]:
        """Return the fields that the JSON formats carry."""
        return {"file": self.file, "line": self.line, "function": self.function}
