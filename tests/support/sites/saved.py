"""Saved files in place of a server: each run of a server's folder as one HTML file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.sites.browser import Server

from stepscope.serve.saved.html_file import write_html
from stepscope.session import open_profile

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class SavedFiles(Server):
    """Runs as files, written when they are asked for."""

    files: Path
    served: Server

    @property
    def live(self) -> Server:
        return self.served

    def place(self, run: str | None) -> str:
        name = run or list(self.runs)[-1]
        file = self.files / f"{list(self.runs).index(name)}.html"
        if not file.is_file():
            html, _ = write_html(open_profile(self.path_of(name)))
            file.write_bytes(html)
        return file.as_uri()


def saved_files(server: Server, files: Path) -> SavedFiles:
    """The runs of a server as files in a folder."""
    runs = dict.fromkeys(server.runs, "saved")
    return SavedFiles(files.as_uri(), server.folder, runs, files, server)
