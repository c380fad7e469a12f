"""`stepscope demo`: explain the recorded training loop that ships with stepscope."""

from __future__ import annotations

import click

__all__ = ["demo"]


@click.command("demo")
def demo() -> int:
    """Explain a small recorded training loop that ships with stepscope.

    It is a real TensorFlow profile; what is printed is what `stepscope report` prints
    for your own.
    """
    from stepscope.cli import demonstrating  # noqa: PLC0415 - help stays light

    return demonstrating.answer()
