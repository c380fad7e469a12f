"""What is written of a model comes back as the table `parameters`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

import stepscope as ss
from stepscope.capture.base.describing import (
    Parameter,
    describe_model,
    described_space,
)
from stepscope.errors import BadUsage
from stepscope.unavailable import Unavailable
from stepscope.xspace.writing.write import XSpaceBuilder

if TYPE_CHECKING:
    from pathlib import Path

PARAMETERS = (
    Parameter("hidden/kernel", "hidden", (32, 64), "float32", trainable=True),
    Parameter("hidden/count", "hidden", (), "int64", trainable=False),
    Parameter("loose", "", None, None, None),
)


def test_a_description_comes_back_as_the_table_of_parameters(tmp_path: Path) -> None:
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(described_space("host", PARAMETERS))
    table = ss.open(path).table("host", "parameters")
    assert isinstance(table, pl.DataFrame)
    assert table.rows() == [
        ("hidden/kernel", "hidden", [32, 64], "float32", True),
        ("hidden/count", "hidden", [], "int64", False),
        ("loose", "", None, None, None),
    ]


def test_two_models_may_have_variables_of_one_name(tmp_path: Path) -> None:
    twins = (
        Parameter("0.weight", "0", (2,), "float32", trainable=True),
        Parameter("0.weight", "0", (3,), "float32", trainable=True),
    )
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(described_space("host", twins))
    table = ss.open(path).table("host", "parameters")
    assert isinstance(table, pl.DataFrame)
    assert table["shape"].to_list() == [[2], [3]]


def test_a_profile_without_a_description_says_so(tmp_path: Path) -> None:
    space = XSpaceBuilder("host", start_ns=None)
    space.plane("/host:CPU").line(1).event("train", dur_ps=5)
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(space.to_bytes())
    absent = ss.open(path).table("host", "parameters")
    assert isinstance(absent, Unavailable)
    assert absent.code == "NOT_RECORDED"


def test_what_is_no_model_is_refused_in_one_line() -> None:
    with pytest.raises(BadUsage, match="a dict cannot be described; give a Keras"):
        describe_model({"weights": [1.0]})
    with pytest.raises(BadUsage, match="a dict cannot be described; give a Keras"):
        ss.describe({"weights": [1.0]})
