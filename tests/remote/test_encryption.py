"""Encrypted recording on loopback, and the clients that it refuses."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner
from tests.remote.test_autoserve import PROGRAM, place_of, served

import stepscope as ss
from stepscope.cli.main import main
from stepscope.errors import BadUsage
from stepscope.remote import client, server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OPENSSL: Final = shutil.which("openssl")
pytestmark = pytest.mark.skipif(OPENSSL is None, reason="needs the command openssl")

TOKEN: Final = "secret"  # noqa: S105 - of these tests alone


def self_signed(folder: Path, name: str, host: str) -> tuple[bytes, bytes]:
    """Make a key and a certificate for a host, which no authority signed."""
    key, chain = folder / f"{name}.key", folder / f"{name}.pem"
    subprocess.run(
        [
            *(str(OPENSSL), "req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"),
            *("-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", f"/CN={name}"),
            *("-addext", f"subjectAltName={host}"),
            *("-keyout", str(key), "-out", str(chain)),
        ],
        check=True,
        capture_output=True,
    )
    return key.read_bytes(), chain.read_bytes()


@pytest.fixture(scope="module")
def certificates(
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, tuple[bytes, bytes]]:
    folder = tmp_path_factory.mktemp("certificates")
    hosts = {
        **dict.fromkeys(("ours", "other"), "IP:127.0.0.1"),
        "elsewhere": "DNS:elsewhere.invalid",
    }
    return {name: self_signed(folder, name, host) for name, host in hosts.items()}


@pytest.fixture
def encrypted(
    certificates: dict[str, tuple[bytes, bytes]],
) -> Iterator[server.Server]:
    started = server.start(0, token=TOKEN, certificate=certificates["ours"])
    yield started
    started.stop()


def refused(address: str, tmp_path: Path, **credentials: Any) -> str:
    with pytest.raises(client.CaptureFailed) as failed:
        client.trace(
            address, tmp_path / "logs", 20, num_tracing_attempts=1, **credentials
        )
    text = str(failed.value)
    assert text.startswith(f"{address}: ")
    assert "\n" not in text
    assert not (tmp_path / "logs").exists()
    return text


@pytest.mark.slow(seconds=0.4)
def test_the_command_records_over_an_encrypted_connection(
    encrypted: server.Server,
    certificates: dict[str, tuple[bytes, bytes]],
    tmp_path: Path,
) -> None:
    trusted = tmp_path / "ours.pem"
    trusted.write_bytes(certificates["ours"][1])
    done = CliRunner().invoke(
        main,
        [
            *("capture", encrypted.address, "--ms", "50", "--token", TOKEN),
            *("--certificate", str(trusted), "--logdir", str(tmp_path / "logs")),
            "--no-report",
        ],
    )
    assert done.exit_code == 0, done.output
    hosts = ss.open(tmp_path / "logs").hosts
    assert hosts == (encrypted.address.replace(":", "_"),)


@pytest.mark.slow(seconds=0.3)
def test_clients_that_may_not_are_refused_and_the_program_goes_on(
    encrypted: server.Server,
    certificates: dict[str, tuple[bytes, bytes]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A client of another machine or user, which does not find the token by itself.
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "elsewhere"))
    ours, other = (certificates[name][1] for name in ("ours", "other"))
    address = encrypted.address
    plain = refused(address, tmp_path, token=TOKEN)
    assert plain.endswith(
        "If the server encrypts, give its certificate (--certificate)."
    )
    wrong = refused(address, tmp_path, token=TOKEN, root_certificate=other)
    assert "the certificate is not trusted" in wrong
    text = refused(address, tmp_path, token="wrong", root_certificate=ours)  # noqa: S106 - none
    assert "refuses the given token: this server requires a token" in text
    outcome = client.trace(
        address, tmp_path / "logs", 20, token=TOKEN, root_certificate=ours
    )
    assert outcome.hosts == (address,)


def test_a_certificate_for_another_name_is_not_trusted(
    certificates: dict[str, tuple[bytes, bytes]], tmp_path: Path
) -> None:
    certificate = certificates["elsewhere"]
    started = server.start(0, certificate=certificate)
    try:
        text = refused(started.address, tmp_path, root_certificate=certificate[1])
    finally:
        started.stop()
    assert "the certificate is not trusted" in text
    assert "the host name that is in the certificate" in text


def test_a_server_that_does_not_encrypt_is_said_to_be_one(
    ours: server.Server,
    certificates: dict[str, tuple[bytes, bytes]],
    tmp_path: Path,
) -> None:
    text = refused(ours.address, tmp_path, root_certificate=certificates["ours"][1])
    assert text.endswith("the server does not encrypt; leave out --certificate.")


@pytest.mark.parametrize("content", [b"", b"no certificate"])
def test_a_file_without_a_certificate_is_refused_before_anybody_is_asked(
    tmp_path: Path, content: bytes
) -> None:
    with pytest.raises(BadUsage, match=r"--certificate has no certificate"):
        client.trace("127.0.0.1:9", tmp_path, 20, root_certificate=content)


def test_a_key_of_another_certificate_is_refused(
    certificates: dict[str, tuple[bytes, bytes]],
) -> None:
    mixed = certificates["other"][0], certificates["ours"][1]
    with pytest.raises(BadUsage, match="the chain that belongs to it"):
        server.start(0, certificate=mixed)


@pytest.mark.slow
def test_a_program_that_was_not_changed_encrypts(
    certificates: dict[str, tuple[bytes, bytes]], tmp_path: Path
) -> None:
    files = [tmp_path / "the key.pem", tmp_path / "chain.pem"]
    for path, content in zip(files, certificates["ours"], strict=True):
        path.write_bytes(content)
    key, chain = map(str, files)
    given = ("--serve=0", "--certificate", chain, "--key", key)
    with served(tmp_path, PROGRAM, *given) as process:
        number, address = place_of(process)
        words = ["capture", "--attach", str(number), "--ms", "50", "--no-report"]
        words += ["--attempts", "1", "--logdir", str(tmp_path / "logs")]
        assert CliRunner().invoke(main, words).exit_code == 2
        done = CliRunner().invoke(main, [*words, "--certificate", chain])
    assert done.exit_code == 0, done.output
    assert ss.open(tmp_path / "logs").hosts == (address.replace(":", "_"),)


def test_what_cannot_encrypt_is_refused_before_the_program_runs(
    certificates: dict[str, tuple[bytes, bytes]], tmp_path: Path
) -> None:
    chain, key = tmp_path / "chain.pem", tmp_path / "other.key"
    chain.write_bytes(certificates["ours"][1])
    key.write_bytes(certificates["other"][0])
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    asked = {
        "is a pipe": ["--serve", "0", "--certificate", pipe, "--key", key],
        "is a device": ["--serve", "0", "--certificate", chain, "--key", "/dev/zero"],
        "cannot encrypt": ["--serve", "0", "--certificate", chain, "--key", key],
        "give both files": ["--serve", "0", "--certificate", chain],
        "add --serve": ["--certificate", chain, "--key", key],
    }
    for said, words in asked.items():
        program = ["--", "-c", f"open({str(tmp_path / 'ran')!r}, 'w')"]
        done = CliRunner().invoke(main, ["run", *map(str, words), *program])
        assert done.exit_code == 2
        assert said in done.stderr
        assert done.stderr.count("\n") == 1
    assert not (tmp_path / "ran").exists()


#: With a line end it would be two headers, and gRPC raises; others arrive as another.
#: What is longer gRPC refuses as metadata.
NO_TOKENS: Final = [
    "",
    " ",
    "two words",
    "line\nend",
    "größe",
    "zero\0byte",
    "x" * 20_000,
]


@pytest.mark.parametrize("token", NO_TOKENS)
def test_a_token_that_cannot_be_sent_is_refused_at_the_start(
    token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadUsage, match="cannot be sent") as refused_token:
        server.start(0, token=token)
    with pytest.raises(BadUsage, match="cannot be sent"):
        client.trace("127.0.0.1:9", tmp_path, 20, token=token)
    commands = [["capture", "127.0.0.1:9", "--token", token]]
    if token and "\0" not in token:
        monkeypatch.setenv("STEPSCOPE_TOKEN", token)
        commands.append(["run", "--serve", "0.0.0.0:0", "--", "-c", "pass"])
        commands.append(["serve", str(tmp_path), "--capture", "127.0.0.1:9"])
    for words in commands:
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 2
        assert "cannot be sent" in done.stderr
        assert done.stderr.count("\n") == 1
    # It is a secret, also where it is none.
    assert not token.strip() or token not in str(refused_token.value)
