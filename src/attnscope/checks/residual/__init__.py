"""The graph of a run around its attention: what reaches what, the stream, norms and sums."""
