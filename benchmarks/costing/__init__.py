"""What watching a model costs: variants, timing, memory, report."""
