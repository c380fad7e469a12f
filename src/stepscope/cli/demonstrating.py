"""What `stepscope demo` does."""

from __future__ import annotations

from importlib import resources

from stepscope.cli import reporting
from stepscope.errors import BadInput
from stepscope.report.page import Piece, line

__all__ = ["answer"]


def answer() -> int:
    """Report on the profile in the package; the exit status."""
    shipped = resources.files("stepscope.cli") / "demo_profile"
    with resources.as_file(shipped) as path:
        if not path.is_dir():
            raise BadInput.at(
                path, "the demonstration profile is missing", "Install stepscope again."
            )
        return reporting.answer(
            [str(path)],
            form="text",
            output=None,
            force=False,
            after=[
                line(Piece("What next", "heading")),
                line(),
                line("  Explain your own run:      ", Piece(_REPORT, "code")),
                line("  Look at every op of this:  ", Piece(_SHOW + str(path), "code")),
            ],
        )


_REPORT = "stepscope report LOGDIR"
_SHOW = "stepscope show ops "
