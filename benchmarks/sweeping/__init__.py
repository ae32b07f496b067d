"""The sweep over every Hugging Face architecture: running, measuring, reporting."""
