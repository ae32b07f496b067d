"""`check`: what is wrong with an attention, at which line, why, and what to write instead.

A rule (`rules/`, one a file) reads the calls of a subject, or the result of a probe (`probes/`,
one a file), which runs the subject under a change. Rules can be listed and explained without
torch, so this package imports nothing; `check` is in `entry`.
"""
