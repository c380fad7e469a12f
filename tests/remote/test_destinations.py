"""Recording into object stores, and where a recording stays that one refuses."""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import stepscope as ss
from stepscope.cli.main import main
from stepscope.errors import BadInput, BadUsage
from stepscope.remote import client
from stepscope.remote.destinations import NotStored, run_destination
from stepscope.remote.messages import ProfileResponse, encode_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepscope.remote import server

    Answering = Callable[[Callable[[bytes, Any], bytes]], str]

fsspec = pytest.importorskip("fsspec", reason="needs fsspec (pip install '.[cloud]')")
memory = pytest.importorskip("fsspec.implementations.memory")

#: Nothing listens there: port 9 is that of a service nobody runs.
NOBODY = "127.0.0.1:9"
#: The smallest profile: one plane with a name.
PROFILE = b"\x0a\x07\x12\x05/host"


class Strict(memory.MemoryFileSystem):  # type: ignore[misc, name-defined]
    """A store that writes half of a file named "refused", and knows its buckets."""

    protocol = "strict"
    store: dict[str, Any] = {}  # noqa: RUF012 - as in the class above
    pseudo_dirs = [""]  # noqa: RUF012 - as above

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        bare: str = super()._strip_protocol(path.removeprefix("strict://"))
        return bare

    def put_file(self, lpath: str, rpath: str, **_: object) -> None:
        """Write a file where its bucket is known, unless it is refused."""
        if not rpath.startswith(("/known/", "/full/")):
            raise FileNotFoundError(rpath)
        content = Path(lpath).read_bytes()
        if rpath.startswith("/full/"):
            super().pipe_file(rpath, content[:3])
            raise PermissionError(f"no right\nto write {Path(rpath).name}")
        super().pipe_file(rpath, content)


@pytest.fixture(autouse=True)
def _stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stores without content, and a cache and temporary files of the test alone."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("STEPSCOPE_CACHE", str(tmp_path / "cache"))
    fsspec.register_implementation("strict", Strict, clobber=True)
    yield
    memory.MemoryFileSystem.store.clear()
    memory.MemoryFileSystem.pseudo_dirs[:] = [""]
    Strict.store.clear()
    Strict.pseudo_dirs[:] = [""]


def whole(_: bytes, __: Any) -> bytes:
    return encode_message(ProfileResponse(xspace=PROFILE))


def kept(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "temporary").rglob("*") if path.is_file()]


@pytest.mark.slow(seconds=0.4)
@pytest.mark.parametrize("scheme", ["memory://logs/of/mine", "file://{}/logs/of/mine"])
def test_a_recording_is_read_from_where_it_was_stored(
    ours: server.Server, tmp_path: Path, scheme: str
) -> None:
    logdir = scheme.format(tmp_path.as_posix())
    outcome = client.trace(ours.address, f"{logdir}/", 50)
    assert outcome.directory == f"{logdir}/plugins/profile/{outcome.run}"
    (host,) = outcome.all
    system, top = fsspec.core.url_to_fs(logdir)
    files = system.find(top, detail=True)
    name = ours.address.replace(":", "_")
    assert [path.removeprefix(top) for path in files] == [
        f"/plugins/profile/{outcome.run}/{name}.xplane.pb"
    ]
    # What the client measured of the host's clock is stored after it.
    assert [it["size"] > host.bytes > 0 for it in files.values()] == [True]
    assert ss.open(outcome.directory).hosts == (name,)
    assert ss.open(logdir).hosts == (name,)


@pytest.mark.slow(seconds=0.5)
def test_the_command_records_into_a_store_and_reports_from_there(
    ours: server.Server,
) -> None:
    wanted = ("capture", ours.address, "--ms", "50", "--logdir", "memory://logs")
    done = CliRunner().invoke(main, wanted)
    assert done.exit_code == 0, done.output
    assert "recorded into memory://logs/plugins/profile/" in done.stderr
    assert done.stdout.startswith("stepscope · ")


def test_recordings_of_one_second_are_runs_of_their_own(answering: Answering) -> None:
    host = answering(whole)
    runs = {client.trace(host, "memory://logs", 10).run for _ in range(3)}
    assert len(runs) == 3
    assert len(memory.MemoryFileSystem().find("/logs")) == 3


def test_what_others_recorded_is_stored_where_one_host_fails(
    answering: Answering,
) -> None:
    hosts = [answering(whole), NOBODY]
    outcome = client.trace(
        hosts, "memory://logs", 10, num_tracing_attempts=1, allow_partial=True
    )
    assert [one.state for one in outcome.all] == ["ok", "error"]
    assert ss.open(outcome.directory).hosts == (hosts[0].replace(":", "_"),)


def test_what_a_store_refuses_is_kept_on_this_machine(
    answering: Answering, tmp_path: Path
) -> None:
    """Both hosts' files, in one directory that opens as a run."""
    hosts = [answering(whole), answering(whole)]
    with pytest.raises(client.CaptureFailed) as failed:
        client.trace(hosts, "strict://full/logs", 10)
    text = str(failed.value)
    assert "\n" not in text
    assert text.count("PermissionError: no right to write") == 2
    files = kept(tmp_path)
    assert [path.read_bytes()[: len(PROFILE)] for path in files] == [PROFILE] * 2
    assert all(
        f"the profile is kept in {path}: copy it from there." in text for path in files
    )
    (directory,) = {path.parent for path in files}
    assert len(ss.open(directory).hosts) == 2
    # The half that was written is no recording.
    assert Strict.store == {}


def test_a_bucket_that_does_not_exist_is_not_made(
    answering: Answering, tmp_path: Path
) -> None:
    with pytest.raises(client.CaptureFailed, match="FileNotFoundError"):
        client.trace(answering(whole), "strict://unknown", 10)
    assert "/unknown" not in Strict.pseudo_dirs
    assert len(kept(tmp_path)) == 1


def test_what_a_full_directory_refuses_is_kept_too(
    answering: Answering, tmp_path: Path
) -> None:
    (tmp_path / "logs").write_text("no directory")
    with pytest.raises(client.CaptureFailed, match="cannot be written to"):
        client.trace(answering(whole), tmp_path / "logs", 10)
    (file,) = kept(tmp_path)
    assert file.read_bytes() == PROFILE


def test_what_a_disk_takes_in_part_is_kept_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full in the middle of the third piece, of which it takes a part."""
    write = io.FileIO.write
    pieces = [bytes([number]) * 1000 for number in range(1, 6)]

    class FullDisk(io.FileIO):
        def write(self, data: Any) -> int:
            room = 2_500 - self.tell()
            if "temporary" in str(self.name) or len(data) <= room:
                return write(self, data)
            if room:
                return write(self, data[:room])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(
        Path, "open", lambda path, mode="r", **_: FullDisk(path, mode.strip("b"))
    )
    destination = run_destination(tmp_path / "logs", "run")
    with pytest.raises(NotStored, match="No space left on device"):
        destination.store_file("a.xplane.pb", iter(pieces), tail=b"tail")
    monkeypatch.undo()
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert file.name == "a.xplane.pb"
    assert file.read_bytes() == b"".join(pieces) + b"tail"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_nothing_stands_of_what_ends_in_the_middle(
    tmp_path: Path, error: type[BaseException]
) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"beginning"
        raise error

    with pytest.raises(error):
        run_destination(tmp_path / "logs", "run").store_file("a.xplane.pb", pieces())
    # Nor a run without a host.
    assert not list((tmp_path / "logs").rglob("run"))


def test_what_is_uploaded_is_received_where_no_other_user_reads_it(
    tmp_path: Path,
) -> None:
    modes = []

    def pieces() -> Iterator[bytes]:
        yield PROFILE[:4]
        (part,) = kept(tmp_path)
        modes.append(part.parent.stat().st_mode & 0o077)
        yield PROFILE[4:]

    run_destination("memory://logs", "run").store_file("a.xplane.pb", pieces())
    assert modes == [0]
    assert list((tmp_path / "temporary").iterdir()) == []
    assert memory.MemoryFileSystem().cat_file(
        "/logs/plugins/profile/run/a.xplane.pb"
    ) == (PROFILE)


def test_a_file_that_can_be_kept_nowhere_is_said_to_be_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    with pytest.raises(
        NotStored, match="the profile cannot be kept on this machine either"
    ):
        run_destination("strict://full", "run").store_file("a.xplane.pb", [PROFILE])


@pytest.mark.parametrize(
    ("logdir", "error", "said"),
    [
        ("nowhere://logs", BadInput, "pip install fsspec"),
        ("no-such-scheme://logs", BadInput, "is not a URL that can be read"),
        ("simplecache::memory://logs", BadUsage, "a file system inside another"),
    ],
)
def test_a_store_that_is_none_is_refused_before_anybody_is_asked(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    logdir: str,
    error: type[Exception],
    said: str,
) -> None:
    absent = {"class": "stepscope_absent.System", "err": "Install absent"}
    known = importlib.import_module("fsspec.registry").known_implementations
    monkeypatch.setitem(known, "nowhere", absent)
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(error, match=said) as refused:
        client.trace(NOBODY, logdir, 10)
    assert "\n" not in str(refused.value)
    assert sorted(tmp_path.iterdir()) == before


def test_without_fsspec_the_command_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    done = CliRunner().invoke(main, ["capture", NOBODY, "--logdir", "s3://bucket"])
    assert done.exit_code == 2
    line = done.stderr.splitlines()[-1]
    assert line.startswith("stepscope: s3://bucket: needs the package fsspec")
    assert "pip install fsspec s3fs gcsfs" in line
