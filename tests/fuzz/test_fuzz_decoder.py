"""A few thousand cases of the loop in `fuzz_decoder.py`, and proof that it can fail."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.support.xspace.kernels import uncompiled_xspace

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

TOUCH_THE_PAGE = """
import sys
sys.path.insert(0, sys.argv[1])
import ctypes
import fuzz_decoder
view = fuzz_decoder.GuardedBuffer(100).holding(b"abc")
place = ctypes.c_char.from_buffer(view.obj)
print(view[2], flush=True)
ctypes.string_at(ctypes.addressof(place) + view.obj.find(b"abc") + 3, 1)
"""


@pytest.fixture
def fuzz(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository / "tests" / "fuzz"))
    import fuzz_decoder  # noqa: PLC0415 - its folder is on the path only now

    return fuzz_decoder


@pytest.mark.parametrize(
    ("cases", "seed"),
    [
        (300, 20),
        pytest.param(3000, 22, marks=(pytest.mark.slow, pytest.mark.integration)),
    ],
)
def test_no_damaged_message_crashes_the_decoder(
    cases: int, seed: int, fuzz: ModuleType
) -> None:
    done, readable = fuzz.loop(
        cases=cases, seconds=60, seed=seed, compare_every=5, note=None
    )
    assert done > cases / 6
    # Neither all nor none can be read, or the cases prove nothing.
    assert done * 0.3 < readable < done * 0.95


@pytest.mark.parametrize("cases", [100, pytest.param(400, marks=pytest.mark.slow)])
def test_no_damaged_message_crashes_the_uncompiled_decoder(
    cases: int, fuzz: ModuleType
) -> None:
    with uncompiled_xspace():
        done, readable = fuzz.loop(
            cases=cases, seconds=60, seed=21, compare_every=5, note=None
        )
    assert done > cases / 4
    assert done * 0.3 < readable < done * 0.95


def test_reading_past_the_guarded_buffer_kills(repository: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TOUCH_THE_PAGE, str(repository / "tests" / "fuzz")],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == str(ord("c"))
    assert done.returncode < 0
