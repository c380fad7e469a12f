"""`explain` on profiles that ship with the repository, and the same over HTTP."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from tests.support.sites.serve import running

from stepscope.advice.catalogue import OWNER_TEXTS
from stepscope.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("opened_once")

#: A recording and an instant in a gap of its device, or of a step without a device.
CASES = {
    "gpu/jax_input_bound": "57.95ms",
    "tf_keras_fit": "36ms",
    "torch_train": "17.9ms",
}


def explain(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["explain", *arguments])


@pytest.fixture(params=sorted(CASES))
def asked(
    request: pytest.FixtureRequest, shared_profile: Callable[[str], Path]
) -> tuple[str, str]:
    name: str = request.param
    return str(shared_profile(name)), CASES[name]


def written(asked: tuple[str, str], *more: str) -> Any:
    done = explain(asked[0], "--at", asked[1], "--format", "json", *more)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.sweep(every=3)
def test_the_page_says_what_the_json_says(asked: tuple[str, str]) -> None:
    page = explain(asked[0], "--at", asked[1])
    assert page.exit_code == 0, page.output
    told = " ".join(page.stdout.split())
    found = written(asked)
    assert found["text"] in told
    assert found["unavailable"] is None
    for owner in found["owners"]:
        assert owner["label"] == OWNER_TEXTS[owner["owner"]]
        if owner["percent"] >= 0.1:
            assert f"{owner['label']} " in told
            assert f"{owner['percent']:.1f} %" in told
    assert f"Confidence of the explanation: {found['confidence']}." in told
    assert f"{found['begin_ps'] / 1e9:,.6f} ms" in told


@pytest.mark.sweep(every=3)
def test_the_route_gives_the_same_answer(asked: tuple[str, str]) -> None:
    found = written(asked)
    at = round(float(asked[1].removesuffix("ms")) * 1e9)
    with running(asked[0]) as site:
        by_instant = site.get(f"data/explain?at_ps={at}")
        assert by_instant.status == 200
        assert by_instant.json == found
        host = found["host"]
        named = site.get(f"data/explain?host={host}&at_ps={at}").json
        assert named == found
        stretch = f"from_ps={found['begin_ps']}&to_ps={found['end_ps']}"
        by_times = site.get(f"data/explain?{stretch}").json
    assert by_times["owners"] == found["owners"]
    assert by_times["kind"] == "interval"


@pytest.mark.sweep(every=3)
def test_two_times_are_explained_as_given(asked: tuple[str, str]) -> None:
    begin, end = (float(asked[1].removesuffix("ms")) + by for by in (0, 1))
    done = explain(
        asked[0], "--from", f"{begin}ms", "--to", f"{end}ms", "--format", "json"
    )
    found = json.loads(done.stdout)
    assert (found["begin_ps"], found["dur_ps"]) == (round(begin * 1e9), 10**9)
    assert sum(one["ps"] for one in found["owners"]) == 10**9


@pytest.mark.sweep(every=3)
def test_markdown_holds_the_same_numbers(asked: tuple[str, str]) -> None:
    done = explain(asked[0], "--at", asked[1], "--format", "markdown")
    assert done.exit_code == 0, done.output
    first = written(asked)["owners"][0]
    row = next(
        line
        for line in done.stdout.splitlines()
        if line.startswith(f"| {first['label']}")
    )
    assert re.findall(r"[\d.]+ %", row) == [f"{first['percent']:.1f} %"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give either --at TIME, or both"),
        (("--at", "1ms", "--to", "2ms"), "give either --at TIME, or both"),
        (("--from", "1ms"), "give either --at TIME, or both"),
        (("--at", "12"), "--at: '12' has no unit"),
        (("--from", "x", "--to", "2ms"), "--from: 'x' is not a time"),
        (("--at", "1000s"), "is outside the recording"),
        (("--from", "3ms", "--to", "2ms"), "is not after the start"),
        (("--at", "1ms", "--host", "nobody"), "there is no host 'nobody'"),
        (("--at", "1ms", "--device", "9"), "there is no device '9'"),
        (("--at", "1ms", "--format", "csv"), "there is no format 'csv'"),
    ],
)
def test_what_cannot_be_asked_is_one_line_and_status_2(
    shared_profile: Callable[[str], Path], arguments: tuple[str, ...], words: str
) -> None:
    done = explain(str(shared_profile("gpu/jax_input_bound")), *arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert words in done.stderr


@pytest.mark.parametrize(
    "query",
    [
        "",
        "at_ps=1&from_ps=2",
        "from_ps=5",
        "from_ps=5&to_ps=2",
        "at_ps=-1",
        "at_ps=1.5",
        "at_ps=99999999999999999999",
        "at_ps=9007199254740991",
        "at_ps=1&device=7",
        "at_ps=1&colour=red",
    ],
)
def test_the_route_refuses_what_it_does_not_know(
    shared_profile: Callable[[str], Path], query: str
) -> None:
    with running(shared_profile("gpu/jax_input_bound")) as site:
        answer = site.get(f"data/explain?{query}")
        assert (answer.status, answer.error) == (400, "bad_parameter")
        assert site.get("data/explain?at_ps=1&host=no").status == 404
