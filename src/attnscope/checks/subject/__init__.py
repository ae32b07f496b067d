"""The subject under test: what it is called with, what that means, how it ran, putting it back."""
