"""`stepscope demo`: record a small training loop here, and explain it."""

from __future__ import annotations

import click


@click.command("demo")
def demo() -> int:
    """Record a small training loop here, and explain it.

    The loop uses PyTorch, JAX or TensorFlow, whichever is installed beside stepscope,
    else NumPy alone. What is printed is what `stepscope run` prints for your own.
    """
    from stepscope.cli import demo as demonstrating  # noqa: PLC0415 - help stays light

    return demonstrating.answer()
