"""Options of `show` are made from the Structs in which tools declare them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from stepscope.analysis.options import OPTIONS
from stepscope.analysis.results.tool import field_sentences
from stepscope.analysis.tools import TOOLS
from stepscope.cli.main import main
from stepscope.cli.tool_options import chosen_options, tool_options

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("opened_once")


@pytest.fixture(scope="module")
def recorded(repository: Path) -> str:
    return str(repository / "tests" / "data" / "tf_keras_fit")


def data(*arguments: str) -> Any:
    result = CliRunner().invoke(main, ["show", *arguments, "--format", "json"])
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)["data"]


def test_what_help_lists_is_what_tools_read() -> None:
    assert {tool.name: tool.options for tool in TOOLS} == dict(OPTIONS)


@pytest.mark.parametrize("tool", OPTIONS)
def test_every_option_of_a_tool_can_be_given_and_has_its_sentence(tool: str) -> None:
    help_of = {one.name: one.help or "" for one in tool_options()}
    sentences = field_sentences(OPTIONS[tool])
    for field in set(OPTIONS[tool].__struct_fields__) - {"host", "hosts"}:
        assert tool in help_of[field]
        assert sentences[field].replace("`", "") in help_of[field]


def test_steps_with_a_flag_can_be_left_out(recorded: str) -> None:
    whole = data("overview_page", recorded)
    flagged = [
        step for step in whole["steps"] if {"first", "outlier"} & {*step["flags"]}
    ]
    assert flagged
    left = data("overview_page", recorded, "--exclude-flags", "first,outlier")
    repeated = data(
        *("overview_page", recorded),
        *("--exclude-flags", "first", "--exclude-flags", "outlier"),
    )
    assert left["step_count"] < whole["step_count"]
    assert left == repeated


def test_a_marker_that_no_step_has_is_answered_with_the_reason(recorded: str) -> None:
    arguments = ["show", "overview_page", recorded, "--marker", "nobody"]
    result = CliRunner().invoke(main, [*arguments, "--format", "json"])
    answer = json.loads(result.stdout)
    assert answer["data"] is None
    assert "marker" in answer["unavailable"]["reason"]


def test_commas_part_words_and_belong_to_patterns() -> None:
    given = {
        "exclude_flags": ("first,outlier", "last"),
        "show_name_regexes": ("a{1,2}", "b"),
        "rank": None,
    }
    assert chosen_options(given) == {
        "exclude_flags": ("first", "outlier", "last"),
        "show_name_regexes": ("a{1,2}", "b"),
    }


def test_an_export_has_every_call_unless_a_number_is_given(
    recorded: str, tmp_path: Path
) -> None:
    def exported(*arguments: str) -> int:
        out = tmp_path / "calls.csv"
        arguments = (*arguments, "--table", "calls", "--format", "csv", "--force")
        command = ["show", "framework_op_stats", recorded, "--op", "DecodeJpeg"]
        result = CliRunner().invoke(main, [*command, *arguments, "-o", str(out)])
        assert result.exit_code == 0, result.stderr
        return len(out.read_text(encoding="utf-8").splitlines()) - 1

    assert exported() > 3
    assert exported("--most-calls", "3") == 3
