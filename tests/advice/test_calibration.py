"""Rules fail on the recordings that are named for them, and others on none."""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stepscope.advice.engine import evaluate, signals_of
from stepscope.advice.registry import RULES
from stepscope.session import open_profile

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
ITEMS = {rule.item.id: rule.item for rule in RULES}
CALIBRATED = {
    name: item.seen_on for name, item in ITEMS.items() if item.seen_on is not None
}
RECORDED = sorted({it for it in CALIBRATED.values() if it.startswith("tests/data/")})
TESTED = sorted((rule, it) for rule, it in CALIBRATED.items() if it.endswith(".py"))
PUBLIC = sorted(
    (rule, name.removeprefix("public "))
    for rule, name in CALIBRATED.items()
    if name.startswith("public ")
)
NAMES = ("*.xplane.pb.gz", "*.pt.trace.json.gz")
PROFILES = sorted({path for name in NAMES for path in DATA.rglob(name)})


#: Folder of recordings → what Nsight Compute measured of the same program.
MEASURED = {
    DATA / "gpu" / "planted_kernels": "kernels.csv.gz",
    DATA / "gpu" / "tiers": "step.csv.gz",
}


@cache
def failing(path: Path) -> frozenset[str]:
    kernels = next(
        (folder / it for folder, it in MEASURED.items() if folder in path.parents), None
    )
    found = evaluate(signals_of(open_profile(path, kernels=kernels)))
    return frozenset(one.id for one in found if one.status == "fail")


def test_what_is_named_is_there(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(PROFILES) >= 20
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    planted = importlib.import_module("experiments_recorded").PLANTED
    for name in CALIBRATED.values():
        kind, _, fault = name.partition(" ")
        if kind == "experiment":
            assert tuple(fault.split()) in planted
        else:
            assert kind == "public" or (ROOT / kind).exists()


def test_a_test_plants_each_fault_that_is_named() -> None:
    planted = importlib.import_module("tests.frameworks.test_planted_faults")
    named = {name for name, it in CALIBRATED.items() if it.startswith("experiment ")}
    assert set().union(*planted.SEEN.values()) == named


@pytest.mark.parametrize(("rule", "name"), TESTED)
def test_rules_fail_in_the_test_that_is_named(rule: str, name: str) -> None:
    """The test itself records the fault, and asserts that the rule fails."""
    module = importlib.import_module(name.removesuffix(".py").replace("/", "."))
    assert rule in module.FAULTS


def test_a_finding_says_whether_its_rule_is_calibrated() -> None:
    told = {name: item.finding("pass").calibrated for name, item in ITEMS.items()}
    assert {name for name, is_calibrated in told.items() if is_calibrated} == {
        *CALIBRATED,
        "score.card",
    }
    # Nothing of these was ever recorded but on made-up programs.
    assert not told["amp.scaling"]
    assert not told["allreduce.pack"]
    assert told["input.bound"]
    assert told["score.card"]


# Judges all recordings of the repository, each for up to half a second.
@pytest.mark.slow
@pytest.mark.sweep(every=5)
@pytest.mark.parametrize("path", PROFILES, ids=lambda path: str(path.parent.name))
def test_whatever_fails_on_a_recording_is_calibrated(path: Path) -> None:
    assert {name for name in failing(path) if not ITEMS[name].is_calibrated} == set()


# As above: the same recordings.
@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
def test_rules_fail_on_the_recording_that_is_named(name: str) -> None:
    expected = {rule for rule, on in CALIBRATED.items() if on == name}
    paths = [path for path in PROFILES if path.is_relative_to(ROOT / name)]
    assert expected <= frozenset().union(*map(failing, paths))


@pytest.mark.parametrize(("rule", "name"), PUBLIC)
def test_rules_fail_on_the_public_profile_that_is_named(
    rule: str, name: str, shared_profile: Callable[[str], Path]
) -> None:
    assert rule in failing(shared_profile(name))
