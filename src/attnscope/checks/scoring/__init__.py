"""Reading scores and weights: what met v, how it was scaled, what it depends on."""
