"""Log directories and servers on loopback (see `serve_site`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.sites.serve import Site, put, running
from tests.support.traces import blueprint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def a1() -> bytes:
    """The file of the first acceptance vector: eight steps of one GPU."""
    return bytes(blueprint.a1().data)


@pytest.fixture(scope="session")
def a5_b() -> bytes:
    """The file of the second host of the fifth vector."""
    return bytes(blueprint.a5_host_b().data)


@pytest.fixture
def logdir(tmp_path: Path, a1: bytes) -> Path:
    """A log directory with one run of one host."""
    folder = tmp_path / "logs"
    put(folder, "r1", "vm", a1)
    return folder


@pytest.fixture
def site(logdir: Path) -> Iterator[Site]:
    with running(logdir) as found:
        yield found
