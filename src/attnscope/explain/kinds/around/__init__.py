"""Kinds of change around an attention: projections, positions, layout, norms, residuals."""
