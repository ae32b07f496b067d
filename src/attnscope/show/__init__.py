"""Drawing what the other rooms have found; nothing is computed here.

`tables`, `walks` and `verification` make rich renderables for a terminal, `plots` draws pictures
with matplotlib, `json` gives plain data for other programs.
"""

from __future__ import annotations
