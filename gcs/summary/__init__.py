"""Summaries: what a fetched body is, what it says, and where it leads (003, section 2)."""

from gcs.summary.pipeline import Level, read
from gcs.summary.plugins import Part, Plugins, load
from gcs.summary.records import Detail, Document, Edge, Heading, Link, Summary

__all__ = [
    "Detail",
    "Document",
    "Edge",
    "Heading",
    "Level",
    "Link",
    "Part",
    "Plugins",
    "Summary",
    "load",
    "read",
]
