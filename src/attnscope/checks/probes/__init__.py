"""Probes, one a file: each runs the subject under one change and returns what moved."""
