"""The other side of `process`: python -m benchmarks.costing.served FILE_DESCRIPTOR."""

from __future__ import annotations

import re
import sys
import traceback
import warnings
from multiprocessing.connection import Connection

_PATH = re.compile(r"(?<![\w.])/[\w./+-]+/")
_MOST = 160


def main() -> None:
    """Make what answers from what comes first, then answer until the other side is gone."""
    warnings.simplefilter("ignore")
    connection = Connection(int(sys.argv[1]))
    serve, argument = connection.recv()
    answer = serve(argument)
    while True:
        try:
            question = connection.recv()
        except EOFError:
            return
        try:
            connection.send(("", answer(question)))
        except Exception as error:  # noqa: BLE001  a peer may raise anything; it becomes a row
            traceback.print_exc()
            connection.send((shortened(f"{type(error).__name__}: {error}"), None))


def shortened(text: str) -> str:
    """Return the first line without folders of this machine, cut to a length that fits a page."""
    line = _PATH.sub("…/", text.strip().split("\n")[0])
    return line if len(line) <= _MOST else f"{line[: _MOST - 1]}…"


if __name__ == "__main__":
    main()
