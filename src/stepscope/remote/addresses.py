"""Parsing addresses of profiler servers as users write them."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stepscope.errors import BadUsage

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Prefix of the address of a Unix socket; an absolute path follows.
SOCKET: Final = "unix:"

_TPUS: Final = ("grpc://", "http://")
_FILE: Final = "@"
_ADDRESS: Final = re.compile(
    r"(?P<host>\[[0-9A-Fa-f:.%\w]+\]|[^\[\]:/\s]+):(?P<port>\d{1,5})\Z"
)
_LAST_PORT: Final = 65535
#: Host name that covers several addresses → the address used on this machine.
_REACHED_BY: Final = {
    "0.0.0.0": "127.0.0.1",  # noqa: S104 - only compared, never bound
    "localhost": "127.0.0.1",
    "[::]": "[::1]",
    "::": "[::1]",
}
_NAME: Final = re.compile(r"[A-Za-z][\w.-]*")
#: Name of a TPU, with or without its zone.
_TPU_NAME: Final = re.compile(r"(?:[a-z][a-z0-9-]*/)?[A-Za-z][\w-]*")
#: Environment variable on a TPU machine: workers of its slice, comma-separated.
_TPU_WORKERS: Final = "TPU_WORKER_HOSTNAMES"


def parse_addresses(texts: str | Iterable[str]) -> tuple[str, ...]:
    """Return `host:port` of each server, without duplicates, in the given order.

    Args:
        texts: Addresses, or comma-separated lists of addresses: `host:port`,
            `grpc://host:port`, `[::1]:port`, `unix:/PATH`. `@FILE` is a file with one
            address per line and `#` comments. `tpu://NAME:port` and
            `tpu://ZONE/NAME:port` mean that port of each worker of a Cloud TPU.

    Raises:
        BadUsage: An address is invalid, a file cannot be read, a TPU is not found, or
            no address is given.
    """
    items = [texts] if isinstance(texts, str) else list(texts)
    addresses: dict[str, None] = {}
    for text in items:
        for part in text.split(","):
            is_file = part.strip().startswith(_FILE)
            for address in _addresses_in_file(part) if is_file else [part]:
                if address.strip():
                    addresses |= dict.fromkeys(_expand_address(address.strip()))
    if not addresses:
        raise BadUsage(
            "no address was given; give host:port of a profiler server, or "
            "--attach PID."
        )
    return tuple(addresses)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to a host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def from_this_machine(address: str) -> str:
    """Return the address that this machine uses for a server on this machine."""
    host, colon, port = address.rpartition(":")
    return f"{_REACHED_BY.get(host, host)}{colon}{port}"


def file_name_of(address: str) -> str:
    """Return the file name of a server's recording without suffix: host and port."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", address).strip("_.")


def _addresses_in_file(text: str) -> list[str]:
    path = Path(text.strip().removeprefix(_FILE))
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadUsage(
            f"{path}: the file of addresses cannot be read ({error}); give a text file "
            "with host:port on each line."
        ) from error
    lines = (line.partition("#")[0] for line in content.splitlines())
    return [address for line in lines for address in line.split(",")]


def _expand_address(text: str) -> tuple[str, ...]:
    """Return the addresses that a text names: one, or one per worker of a TPU."""
    if not text.startswith(TPU):
        return (_check_address(text),)
    name, _, port = text.removeprefix(TPU).rpartition(":")
    if not _TPU_NAME.fullmatch(name):
        raise BadUsage(
            f"{text!r} is not a TPU with a port; give {TPU}NAME:PORT, or "
            f"{TPU}ZONE/NAME:PORT, with the port of its profiler servers."
        )
    # Reject an invalid port before the slow lookup of the workers.
    _check_address(f"worker:{port}")
    return tuple(_check_address(f"{host}:{port}") for host in tpu_workers(name))


def _check_address(text: str) -> str:
    if text.startswith(f"{SOCKET}/"):
        return text
    bare = text
    for scheme in _TPUS:
        bare = bare.removeprefix(scheme)
    if _NAME.fullmatch(bare):
        hosts = os.environ.get(_TPU_WORKERS, "").replace(" ", "").split(",")
        workers_here = [f"{host}:PORT" for host in hosts if host]
        raise BadUsage(
            f"{text!r} is not an address of a profiler server: names without a port "
            "are not looked up. Give host:port of each worker, with the port of its "
            "jax.profiler.start_server or tf.profiler.experimental.server.start: "
            f"{' '.join(workers_here) or f'{bare}:6009'}. For a Cloud TPU, "
            f"{TPU}{bare}:PORT finds its workers."
        )
    match = _ADDRESS.match(bare.rstrip("/"))
    if match is None or not 0 < int(match["port"]) <= _LAST_PORT:
        raise BadUsage(
            f"{text!r} is not an address of a profiler server; give host:port, such as "
            "localhost:6009."
        )
    return match.group()


#: Prefix of an address with the name of a TPU, which is replaced by its workers.
TPU: Final = "tpu://"
_COMMAND: Final = "gcloud"
_PATIENCE_S: Final = 60.0


def tpu_workers(name: str) -> tuple[str, ...]:
    """Return the internal addresses of a TPU's workers, in the TPU's order.

    Args:
        name: Name of the TPU, or `ZONE/NAME` if its zone is not the configured one.
    """
    zone, _, bare = name.rpartition("/")
    tpu = _describe_tpu(bare, zone)
    endpoints = tpu.get("networkEndpoints") or []
    hosts = [node.get("ipAddress") for node in endpoints if isinstance(node, dict)]
    known = tuple(host for host in hosts if isinstance(host, str) and host)
    if not known:
        raise BadUsage(
            f"the TPU {bare!r} has no workers (its state is "
            f"{tpu.get('state', 'not known')}); start it, or give host:port of each."
        )
    return known


def _describe_tpu(name: str, zone: str) -> dict[str, Any]:
    command = shutil.which(_COMMAND)
    if command is None:
        raise BadUsage(
            f"finding {TPU}{name} needs Google's command line, but {_COMMAND} is not "
            "on the PATH; install the Google Cloud CLI, or give host:port of each "
            "worker."
        )
    args = [command, "compute", "tpus", "tpu-vm", "describe", name, "--format=json"]
    args += [f"--zone={zone}"] if zone else []
    try:
        run = subprocess.run(  # noqa: S603 - the name starts with a letter, so it is not an option
            args,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadUsage(f"{_COMMAND} cannot look up {name!r} ({error}).") from error
    if run.returncode:
        text = " ".join(run.stderr.split()) or f"exit status {run.returncode}"
        raise BadUsage(f"{_COMMAND} does not know the TPU {name!r}: {text}")
    try:
        tpu = json.loads(run.stdout)
    except ValueError as error:
        raise BadUsage(f"{_COMMAND} did not describe {name!r} as JSON.") from error
    return tpu if isinstance(tpu, dict) else {}
