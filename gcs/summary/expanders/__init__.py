"""Expanders: what is inside of archives and mailboxes; see `gcs.summary.registry`."""
