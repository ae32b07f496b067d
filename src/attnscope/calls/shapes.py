"""The live shape sheet: each step of a call, its shape, what its axes are, who took part."""

from __future__ import annotations

from dataclasses import dataclass

from attnscope.calls.source import Source


@dataclass(frozen=True, slots=True)
class ShapeRow:
    """One step of a call.

    step: what happened ("linear", "view", "q · k", "softmax"); name: the tensor it made ("q",
    "scores", ""); axes: one name an axis of `shape`, "?" where unknown; parameters: those that took
    part; origins: for q, k and v, which axis of the input each axis runs over, "" where unknown.
    """

    step: str
    name: str
    shape: tuple[int, ...]
    axes: tuple[str, ...]
    parameters: tuple[str, ...] = ()
    source: Source | None = None
    origins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShapeSheet:
    """The rows of one call, in the order they happened."""

    index: int
    module: str
    rows: tuple[ShapeRow, ...]

    def to_json(self) -> dict[str, object]:
        """Return the sheet as plain data."""
        return {
            "call": self.index,
            "module": self.module,
            "rows": [
                {
                    "step": row.step,
                    "name": row.name,
                    "shape": list(row.shape),
                    "axes": list(row.axes),
                    "parameters": list(row.parameters),
                    "origins": list(row.origins),
                    "source": row.source.to_json() if row.source else None,
                }
                for row in self.rows
            ],
        }

    def __str__(self) -> str:
        """Return the sheet as aligned plain text."""
        lines = [f"call {self.index}  {self.module}"]
        for row in self.rows:
            axes = " x ".join(
                f"{name} {size}" for name, size in zip(row.axes, row.shape, strict=True)
            )
            parameters = f"  [{', '.join(row.parameters)}]" if row.parameters else ""
            lines.append(f"  {row.step:<18} {row.name:<10} {axes}{parameters}")
            told = [f"{n} = {o}" for n, o in zip(row.axes, row.origins, strict=False) if o]
            if told:
                lines.append(f"  {'':<29} {', '.join(told)}")
        return "\n".join(lines)
