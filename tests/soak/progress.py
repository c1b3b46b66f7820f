"""How far a soak is, for people and for logs."""

from __future__ import annotations

import sys

import click


class Progress:
    """How far something is: one line, rewritten on a terminal, else a new one every so often."""

    def __init__(self, *, every_s: float = 1.0) -> None:
        self._terminal = sys.stdout.isatty()
        self._every_s = every_s
        self._next = 0.0

    def show(self, line: str, now_s: float) -> None:
        """Replace the line."""
        if self._terminal:
            click.echo(f"\r\x1b[2K{line}", nl=False)
        elif now_s >= self._next:
            self._next = now_s + self._every_s
            click.echo(line)

    def say(self, line: str) -> None:
        """Print a line that stays."""
        self.close()
        click.echo(line)

    def close(self) -> None:
        """Take the line away."""
        if self._terminal:
            click.echo("\r\x1b[2K", nl=False)
