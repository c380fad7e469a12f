"""Build the documentation's site; `make docs`.

    python build_tools/docs_site.py [--output FOLDER]

Sphinx makes HTML from the pages that `docs_pages.py` makes from the repository's
Markdown, and from the reference that `docs_api.py` makes from docstrings. The build
fails where a link or an anchor leads nowhere, or the menu lacks a page. Next to each
page is its Markdown; `llms.txt` lists all pages, `llms-full.txt` has their text.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from docs_api import api_pages
from docs_pages import Site

ROOT = Path(__file__).resolve().parents[1]
THEME = Path(__file__).resolve().parent / "docs_theme"
OUTPUT = ROOT / "build" / "site"


def build_site(site: Site, output: Path) -> int:
    """Build the site into a folder that is made again; return Sphinx's exit status."""
    shutil.rmtree(output, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder) / "sources"
        site.write_sources(sources)
        done = subprocess.run(
            [
                *(sys.executable, "-m", "sphinx", "-b", "html", "-q"),
                *("-W", "--keep-going", "-j", "auto"),
                *("-c", str(THEME), "-d", f"{folder}/doctrees"),
                *(str(sources), str(output)),
            ],
            check=False,
        )
    if done.returncode == 0:
        site.write_markdown(output)
        (output / ".buildinfo").unlink()
        (output / "_sources").rmdir()
    return done.returncode


def main() -> int:
    """Build the site of this repository, and say where it is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=OUTPUT, metavar="FOLDER")
    output: Path = parser.parse_args().output
    status = build_site(Site(ROOT, api_pages(ROOT / "src")), output)
    if status == 0:
        print(f"{output / 'index.html'}")
    return status


if __name__ == "__main__":
    sys.exit(main())
