"""Keeps the rows of a sweep in one JSON file, written whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import torch
import transformers

from benchmarks.sweeping.row import Row, from_json

SCHEMA = "attnscope.coverage/1"

Rows = dict[str, list[Row]]
"""The rows of each architecture, one a setting."""


def read_rows(path: Path) -> Rows:
    """Return what was stored; nothing where there is no file, or it is of other versions."""
    if not path.exists():
        return {}
    stored = json.loads(path.read_text(encoding="utf-8"))
    if {name: stored.get(name) for name in _versions()} != _versions():
        return {}
    rows: Rows = {}
    for fields in stored["rows"]:
        rows.setdefault(fields["architecture"], []).append(from_json(fields))
    return rows


def write_rows(path: Path, rows: Rows) -> None:
    """Store the rows, one a line, by name."""
    lines = [json.dumps(row.to_json()) for name in sorted(rows) for row in rows[name]]
    head = ", ".join(f'"{key}": {json.dumps(value)}' for key, value in _versions().items())
    body = ",\n".join(lines)
    fresh = path.with_suffix(".new")
    fresh.write_text(f'{{{head}, "rows": [\n{body}\n]}}\n', encoding="utf-8")
    fresh.replace(path)


def _versions() -> dict[str, str]:
    return {
        "schema": SCHEMA,
        "torch": str(torch.__version__),
        "transformers": str(transformers.__version__),
    }
