"""Which tokens reach which others in an attention, and where in the code that is decided."""
