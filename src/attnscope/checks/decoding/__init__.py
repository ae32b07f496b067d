"""Decoding with a cache: the steps of a run, and the first place at which they part from a full pass."""
