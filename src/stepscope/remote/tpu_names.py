"""The workers of a Cloud TPU, which Google's command line looks up by its name."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any, Final

from stepscope.errors import BadUsage

#: Begins an address in which the name of a TPU stands for its workers.
SCHEME: Final = "tpu://"
_COMMAND: Final = "gcloud"
_PATIENCE_S: Final = 60.0


def workers(name: str) -> tuple[str, ...]:
    """Return the internal addresses of a TPU's workers, in their order.

    Args:
        name: The name of the TPU, or `ZONE/NAME` where the zone is not the configured
            one.

    Raises:
        BadUsage: Google's command line is not installed, it does not know the TPU, or
            the TPU has no workers.
    """
    zone, _, bare = name.rpartition("/")
    found = _described(bare, zone)
    endpoints = found.get("networkEndpoints") or []
    hosts = [one.get("ipAddress") for one in endpoints if isinstance(one, dict)]
    known = tuple(host for host in hosts if isinstance(host, str) and host)
    if not known:
        raise BadUsage(
            f"the TPU {bare!r} has no workers (its state is "
            f"{found.get('state', 'not known')}); start it, or give host:port of each."
        )
    return known


def _described(name: str, zone: str) -> dict[str, Any]:
    """Return what Google's command line says of a TPU."""
    command = shutil.which(_COMMAND)
    if command is None:
        raise BadUsage(
            f"{SCHEME}{name} is looked up by Google's command line, and no {_COMMAND} "
            "is on the PATH; install the Google Cloud CLI, or give host:port of each "
            "worker."
        )
    asked = [command, "compute", "tpus", "tpu-vm", "describe", name, "--format=json"]
    asked += [f"--zone={zone}"] if zone else []
    try:
        done = subprocess.run(  # noqa: S603 - the name begins with a letter: no option
            asked,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadUsage(f"{_COMMAND} cannot be asked for {name!r} ({error}).") from error
    if done.returncode:
        said = " ".join(done.stderr.split()) or f"exit status {done.returncode}"
        raise BadUsage(f"{_COMMAND} does not know the TPU {name!r}: {said}")
    try:
        found = json.loads(done.stdout)
    except ValueError as error:
        raise BadUsage(f"{_COMMAND} did not describe {name!r} as JSON.") from error
    return found if isinstance(found, dict) else {}
