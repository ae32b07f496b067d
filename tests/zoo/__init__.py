"""Faulty and sound programs, and how `attnscope check` is judged on them."""
