"""Readers: what formats other than HTML and plain text say; see `gcs.summary.registry`."""
