"""Counts bytes: of tensors, as PyTorch allocates and frees them, and of the process.

Neither count puts a mode between the model and PyTorch, so what runs is what runs otherwise.
"""

from __future__ import annotations

import gc
import json
import tempfile
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from benchmarks.costing.row import Memory

# With these a freed block goes back to the system at once, and resident memory means something.
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}

_RESET_PEAK = "5"
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def measure(run: Callable[[], Any]) -> Memory:
    """Run twice, once for the process and once for the tensors, after whatever warmed it up."""
    process = _process_peak(run)
    peak, kept = _tensor_bytes(run)
    return Memory(peak, kept, process)


def _tensor_bytes(run: Callable[[], Any]) -> tuple[int, int]:
    """Return the most bytes of tensors at once, and those held at the end with the result.

    PyTorch's profiler reports every block that its allocator hands out or takes back, with the sum
    of what is out. Blocks from before the run are not in it.
    """
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        result = run()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "events.json")
        profiler.export_chrome_trace(str(file))
        recorded = json.loads(file.read_text(encoding="utf-8"))["traceEvents"]
    del result
    events = [event for event in recorded if event["name"] == "[memory]"]
    events.sort(key=lambda event: event["args"]["Ev Idx"])
    first, last = events[0]["args"], events[-1]["args"]
    before = first["Total Allocated"] - first["Bytes"]
    most = max(event["args"]["Total Allocated"] for event in events)
    return most - before, last["Total Allocated"] - before


def _process_peak(run: Callable[[], Any]) -> int | None:
    """Return by how much the run raised resident memory at most; None where Linux doesn't tell."""
    gc.collect()
    try:
        _CLEAR.write_text(_RESET_PEAK, encoding="ascii")
    except OSError:
        return None
    before = _status("VmRSS")
    result = run()
    most = _status("VmHWM")
    del result
    return most - before


def _status(name: str) -> int:
    line = next(text for text in _STATUS.read_text(encoding="ascii").splitlines() if name in text)
    return int(line.split()[1]) * 1024


_STOP = (types.ModuleType, type, nn.Module, types.FrameType)


def tensors_in(*roots: object) -> Iterator[Tensor]:
    """Yield every tensor with values that can be reached from `roots`, except through a model."""
    seen: set[int] = set()
    waiting = list(roots)
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, _STOP):
            continue
        seen.add(id(value))
        if isinstance(value, Tensor):
            if value.device.type != "meta":
                yield value
        elif isinstance(value, types.FunctionType):
            waiting += [value.__closure__, value.__defaults__]  # not all that its file defines
        else:
            waiting += gc.get_referents(value)
