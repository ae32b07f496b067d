"""Kinds of change inside an attention: from q, k and v to the context."""
