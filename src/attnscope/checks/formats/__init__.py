"""A report in words, and in other programs' formats: text, GitHub's annotations, SARIF."""
