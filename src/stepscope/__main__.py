"""`python -m stepscope` is `stepscope`."""

from __future__ import annotations

from stepscope.cli.light_start import end_lightly
from stepscope.cli.main import main
from stepscope.cli.output import replace_closed_streams

__all__ = ["run"]


def run() -> None:
    """Run a command line in a process of its own, and end that process."""
    replace_closed_streams()
    try:
        main()
    except SystemExit as leaving:
        end_lightly(leaving.code)
        raise


if __name__ == "__main__":
    run()
