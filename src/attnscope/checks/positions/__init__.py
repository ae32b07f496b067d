"""Positions in a run: what is added for them, what turns q and k, what biases scores."""
