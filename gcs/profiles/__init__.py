"""Profiles: saved queries that every summary is matched against as it passes, and deliveries of the matches.

`records` are what goes through the tuple space, `book` its tuples; `matching` follows a gatherer's summaries,
with `worker` as the process that does it; `courier` delivers, to what `targets` knows.
"""
