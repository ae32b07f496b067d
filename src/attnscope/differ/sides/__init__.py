"""The two sides of a comparison: what they are, how they ran, which calls are the same."""
