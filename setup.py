"""Declare the compiled kernels and the page; all else stands in pyproject.toml."""

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path("build_tools").resolve()))
import rule_pages
import web_page
from compiled_kernels import CompileKernels, kernels


class BuildWithPage(build_py):
    """Build the page, and take in the rules' pages, before files are counted."""

    def run(self) -> None:
        """Build the pages, then what setuptools builds."""
        # An editable install serves the checkout's page, whenever that is built.
        if not self.editable_mode:
            web_page.build()
            rule_pages.copy()
            # setuptools may have listed the files before the page was there.
            self.__dict__.pop("data_files", None)
        super().run()


setup(
    cmdclass={"build_ext": CompileKernels, "build_py": BuildWithPage},
    ext_modules=kernels(),
)
