"""Some thousand cases of the loop in `fuzz_kineto.py`, and proof that it can fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stepscope.errors import BadInput

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType


@pytest.fixture
def fuzz(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository / "tests" / "fuzz"))
    import fuzz_kineto  # noqa: PLC0415 - its folder is on the path only now

    return fuzz_kineto


@pytest.mark.parametrize(
    ("cases", "seed"),
    [
        (40, 20),
        pytest.param(750, 21, marks=pytest.mark.slow(seconds=12)),
        pytest.param(3000, 22, marks=pytest.mark.thorough),
    ],
)
def test_no_damaged_trace_raises_anything_but_one_line(
    cases: int, seed: int, fuzz: ModuleType, tmp_path: Path
) -> None:
    note = tmp_path / "trace.json"
    done, readable, _ = fuzz.loop(cases=cases, seconds=300, seed=seed, note=note)
    assert done > cases / 10
    # Neither all nor none can be read, or the cases prove nothing.
    assert done * 0.3 < readable < done * 0.95


def test_what_is_undamaged_is_read(fuzz: ModuleType, tmp_path: Path) -> None:
    for number, whole in enumerate(fuzz.sources()):
        path = tmp_path / f"{number}.json"
        path.write_bytes(whole)
        events = fuzz.read(path).table("events")
        assert events.height > 5


@pytest.mark.parametrize("wrong", [KeyError("x"), BadInput("two\nlines")])
def test_the_loop_sees_what_it_looks_for(
    wrong: Exception,
    fuzz: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def read(_: Path) -> None:
        raise wrong

    monkeypatch.setattr(fuzz, "read", read)
    with pytest.raises((KeyError, AssertionError)):
        fuzz.loop(cases=3, seconds=9, seed=1, note=tmp_path / "trace.json")
