"""The parts of `benchmarks/ports.py`."""
