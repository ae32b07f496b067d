"""Which parameter of one model is which of another: by value, by name, by packing, as told."""
