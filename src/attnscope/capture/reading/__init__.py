"""Reads recorded operations into axes, a recipe and shapes: numbers, where names would be guesses."""
