"""Where tokens, heads and features go: reading the codes of `probes.coded`, and naming the line."""
