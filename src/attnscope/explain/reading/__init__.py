"""Reads recorded parts: their graph, tensors on the way, rotary embeddings, columns."""
