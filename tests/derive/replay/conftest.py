"""Small programs whose steps can be worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.traces.replayed import Program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.support.traces import blueprint


@pytest.fixture(scope="session")
def program() -> Callable[[Sequence[blueprint.Line]], Program]:
    """`program(lines)`: the program that was recorded with exactly these lines."""
    return Program
