"""`python -m stepscope` does the same as the command `stepscope`."""

from __future__ import annotations

import sys

try:
    import os
    import signal
    from typing import TYPE_CHECKING

    from stepscope.cli.light_start import end_lightly
    from stepscope.cli.main import INTERRUPTED, main
    from stepscope.cli.output import replace_closed_streams
except KeyboardInterrupt:
    sys.stderr.write("stepscope: interrupted\n")
    sys.exit(130)

if TYPE_CHECKING:
    from types import FrameType


def run() -> None:
    """Run a command line in its own process, and end that process."""
    replace_closed_streams()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt_once)
    try:
        main()
    except SystemExit as leaving:
        end_lightly(leaving.code, waits=leaving.code != INTERRUPTED)
        raise


def _interrupt_once(number: int, frame: FrameType | None) -> None:
    """Interrupt the command with a one-line message; a second Ctrl-C exits at once."""
    del frame
    signal.signal(number, lambda *_: os._exit(INTERRUPTED))
    raise KeyboardInterrupt


if __name__ == "__main__":
    run()
