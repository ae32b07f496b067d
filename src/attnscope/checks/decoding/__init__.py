"""Decoding with a cache: the steps, and the first place where they part from a full pass."""
