"""Causes of a difference that lie outside of one attention's arithmetic."""
