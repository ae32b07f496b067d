"""What each call hides: by which operation, with which fill, and how well it hides it."""
