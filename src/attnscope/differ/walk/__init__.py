"""The walk through the stages, forward and backward, and what counts as a difference."""
