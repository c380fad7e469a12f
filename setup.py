"""Declare the kernels, the page and the description; pyproject.toml has all else."""

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

sys.path.insert(0, str(Path("build_tools").resolve()))
import rule_pages
import web_page
from compiled_kernels import CompileKernels, kernels
from long_description import long_description


def build_pages() -> None:
    """Put the web page, the rules' texts and their pages into the package."""
    web_page.build()
    rule_pages.build()


class BuildWithPages(build_py):
    """Build the pages before files are counted."""

    def run(self) -> None:
        """Build the pages, then what setuptools builds."""
        # An editable install serves the checkout's page, whenever that is built.
        if not self.editable_mode:
            build_pages()
            # setuptools may have listed the files before the page was there.
            self.__dict__.pop("data_files", None)
        super().run()


class ArchiveWithPages(sdist):
    """Build the pages before files are listed: an archive holds them as built."""

    def run(self) -> None:
        """Build the pages, then the source archive."""
        build_pages()
        super().run()


setup(
    cmdclass={
        "build_ext": CompileKernels,
        "build_py": BuildWithPages,
        "sdist": ArchiveWithPages,
    },
    ext_modules=kernels(),
    long_description=long_description(Path()),
    long_description_content_type="text/markdown",
)
