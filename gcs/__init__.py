"""GCS: gatherers that crawl the web together, each owning a part of the URL space."""

__version__ = "0.1.0"
