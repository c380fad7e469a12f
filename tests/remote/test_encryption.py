"""Encrypted recording on loopback, and the clients that it refuses."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

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
    assert plain.endswith("If it encrypts, give its certificate (--certificate).")
    wrong = refused(address, tmp_path, token=TOKEN, root_certificate=other)
    assert "its certificate is not trusted" in wrong
    text = refused(address, tmp_path, token="wrong", root_certificate=ours)  # noqa: S106 - none
    assert "refuses the token that it was sent: this server wants a token" in text
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
    assert "its certificate is not trusted" in text
    assert "the host's name as the certificate has it" in text


def test_a_server_that_does_not_encrypt_is_said_to_be_one(
    ours: server.Server,
    certificates: dict[str, tuple[bytes, bytes]],
    tmp_path: Path,
) -> None:
    text = refused(ours.address, tmp_path, root_certificate=certificates["ours"][1])
    assert text.endswith("it does not encrypt; leave out --certificate.")


@pytest.mark.parametrize("content", [b"", b"no certificate"])
def test_a_file_without_a_certificate_is_refused_before_anybody_is_asked(
    tmp_path: Path, content: bytes
) -> None:
    with pytest.raises(BadUsage, match=r"the certificate .* holds none"):
        client.trace("127.0.0.1:9", tmp_path, 20, root_certificate=content)


def test_a_key_of_another_certificate_is_refused(
    certificates: dict[str, tuple[bytes, bytes]],
) -> None:
    mixed = certificates["other"][0], certificates["ours"][1]
    with pytest.raises(BadUsage, match="the chain that belongs to it"):
        server.start(0, certificate=mixed)
