"""Reads recorded operations into axes, a recipe and shapes: by numbers where names would guess."""
