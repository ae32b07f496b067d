"""Which tokens reach which others in an attention, by what it really computes, and where that is decided."""
