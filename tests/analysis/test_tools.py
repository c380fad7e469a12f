"""Tools are declared in one tuple, and each is loaded when it is first used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from stepscope.analysis import compat_tensorflow
from stepscope.analysis.tools import TOOLS

#: Names what was loaded of tools that a report does not ask.
PROGRAM = """
import sys
import stepscope.reporting.compose
rooms = ("roofline_model", "trace_viewer", "compat_tensorflow")
print([room for room in rooms if f"stepscope.analysis.{room}" in sys.modules])
"""


def test_the_numbers_of_a_producer_are_those_of_its_room() -> None:
    found = {
        (tool.name, producer): tool.analyse_as(producer)
        for tool in TOOLS
        for producer in tool.compat
    }
    producer = compat_tensorflow.PRODUCER
    assert found == {
        ("overview_page", producer): compat_tensorflow.overview_page,
        (
            "input_pipeline_analyzer",
            producer,
        ): compat_tensorflow.input_pipeline_analyzer,
    }


@pytest.mark.slow(seconds=1)  # starts a program that imports polars
def test_a_report_loads_only_the_tools_that_it_asks() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
