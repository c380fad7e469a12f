"""Some cases of each loop in `fuzz_readers.py`, and proof that the loop can fail."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pytest

from stepscope.formats.opening import read

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

    from stepscope.trace.model import TraceData

FORMATS = ("kineto", "ncu", "snapshot", "nsight", "pprof", "timeline")


@pytest.fixture
def fuzz(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository / "tests" / "fuzz"))
    import fuzz_readers  # noqa: PLC0415 - its folder is on the path only now

    return fuzz_readers


def test_every_loop_is_tried(fuzz: ModuleType) -> None:
    assert set(FORMATS) == set(fuzz.LOOPS)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    ("cases", "seed"),
    [
        (20, 20),
        pytest.param(
            100, 21, marks=(pytest.mark.slow(seconds=3), pytest.mark.integration)
        ),
        pytest.param(3000, 22, marks=pytest.mark.thorough),
    ],
)
def test_no_damaged_file_raises_anything_but_one_line(
    name: str, cases: int, seed: int, fuzz: ModuleType, tmp_path: Path
) -> None:
    file_name, case = fuzz.LOOPS[name]
    found = fuzz.damage_loop(
        case, cases=cases, seconds=200, seed=seed, note=tmp_path / file_name
    )
    assert found.cases > cases / 10
    # Neither all nor none can be read, or the cases prove nothing.
    assert 0 < found.readable < found.cases


def test_undamaged_traces_of_pytorch_are_read(fuzz: ModuleType, tmp_path: Path) -> None:
    for number, whole in enumerate(fuzz.sources()):
        path = tmp_path / f"{number}.json"
        path.write_bytes(whole)
        assert read(path).table("events").height > 5


def raises(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: raises(KeyError("x")),
        lambda: warnings.warn("of polars", stacklevel=1),
    ],
    ids=["KeyError", "warning"],
)
def test_the_loop_sees_what_it_looks_for(
    wrong: Callable[[], None],
    fuzz: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    import case_loop  # noqa: PLC0415 - its folder is on the path only now

    def damaged(_: Path) -> TraceData:
        wrong()
        return trace

    path = tmp_path / "trace.json"
    path.write_bytes(fuzz.sources()[0])
    trace = read(path)
    monkeypatch.setattr(case_loop, "read", damaged)
    with pytest.raises((KeyError, UserWarning)):
        fuzz.damage_loop(
            lambda _: b"x", cases=3, seconds=9, seed=1, note=tmp_path / "x.json"
        )
