"""The pure part of GCS: decisions without I/O, whose time and randomness come in as arguments."""
