"""The subject under test: what it is called with, what that means, how it ran, and putting it back."""
