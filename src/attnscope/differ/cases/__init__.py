"""Further inputs on which the same comparison is made."""
