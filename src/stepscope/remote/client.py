"""`ss.client.trace`: record one or several programs that run a profiler server.

    ss.client.trace("localhost:6009", "logs", duration_ms=2000)

Servers of TensorFlow, JAX and stepscope are called in the same way. Servers return
their recordings over the network, so no shared disk is needed.

Definition: docs/remote.md.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final

from stepscope import rundir
from stepscope.capture.base.options import TRACER_LEVELS, ProfilerOptions
from stepscope.errors import BadUsage, StepscopeError
from stepscope.remote import listening_programs
from stepscope.remote.addresses import parse_addresses
from stepscope.remote.calling import Caller
from stepscope.remote.destinations import run_destination
from stepscope.remote.messages import MAX_MS, ProfileOptions, ProfileRequest
from stepscope.remote.outcome import HostOutcome, Outcome
from stepscope.remote.transport import MAX_ANSWER_BYTES, checked_token, grpc_module

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    from stepscope.remote.destinations import Destination

__all__ = ["CaptureFailed", "Outcome", "record", "trace"]

_NS_PER_MS: Final = 1_000_000
#: If there are several hosts, all start after this multiple of the slowest round trip.
_ROUND_TRIPS: Final = 4
_MAX_STEPS: Final = 1_000_000
_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"


class CaptureFailed(StepscopeError):
    """At least one host was not recorded.

    Attributes:
        outcome: Result of the recording on each host.
    """

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.problems())
        self.outcome = outcome


def trace(  # noqa: PLR0917 - the signature of TensorFlow's function
    service_addr: str | Iterable[str],
    logdir: str | os.PathLike[str],
    duration_ms: int,
    worker_list: str | Iterable[str] = "",
    num_tracing_attempts: int = 3,
    options: ProfilerOptions | None = None,
    *,
    allow_partial: bool = False,
    token: str | None = None,
    root_certificate: bytes | None = None,
    on_progress: Callable[[HostOutcome], None] | None = None,
    steps: int | None = None,
    max_bytes: int = MAX_ANSWER_BYTES,
) -> Outcome:
    """Record for a time, and store one run in a log directory.

    Args:
        service_addr: `host:port`, a comma-separated list, `unix:/PATH`, `@FILE` with
            one address per line, or `tpu://NAME:port` for the workers of a Cloud TPU.
        logdir: Directory for the run on this machine, or a URL for fsspec (`s3://…`,
            `gs://…`). If storing fails, the recording is kept in a temporary directory,
            which the error names.
        duration_ms: Duration of the recording, in ms.
        worker_list: More addresses, which are recorded at the same time.
        num_tracing_attempts: Maximum attempts per host that recorded nothing, is busy
            or does not answer.
        options: What to record, and `delay_ms`; None for the defaults.
        allow_partial: Whether to succeed if only some hosts were recorded.
        token: Token for servers of other users and machines; servers of this user on
            this machine receive their own token.
        root_certificate: Certificate to trust (PEM); if given, calls are encrypted.
        on_progress: Called with each host's outcome when it is known.
        steps: Number of whole steps to record on each host, for at most `duration_ms`.
            TensorFlow's and JAX's servers count no steps: they record for
            `duration_ms`.
        max_bytes: Maximum bytes of a recording per host. Recordings are written while
            they arrive. Servers of TensorFlow and JAX send one message of at most 2 GB,
            of which gRPC holds three copies in memory.

    Raises:
        CaptureFailed: No host was recorded, or not all hosts and `allow_partial` is
            false. The recordings of other hosts are stored nevertheless.
        BadUsage: An address, the token or the certificate is invalid, or gRPC is not
            installed.
        BadInput: The file system of a URL is unknown, or its package is not installed.
    """
    if not 0 < duration_ms <= MAX_MS:
        raise BadUsage(f"duration_ms={duration_ms} is invalid; give 1 to {MAX_MS}.")
    if steps is not None and not 0 < steps <= _MAX_STEPS:
        raise BadUsage(f"steps={steps} is invalid; give 1 to {_MAX_STEPS}.")
    if max_bytes < 1:
        raise BadUsage(f"max_bytes={max_bytes} is invalid; give 1 or more.")
    workers = [worker_list] if isinstance(worker_list, str) else list(worker_list)
    servers = [service_addr] if isinstance(service_addr, str) else list(service_addr)
    run = rundir.new_run_name(time.time())
    return record(
        parse_addresses([*servers, *(text for text in workers if text)]),
        destination=run_destination(logdir, run),
        request=_make_request(duration_ms, run, options, steps or 0),
        delay_ms=(options and options.delay_ms) or 0,
        attempts=num_tracing_attempts,
        allow_partial=allow_partial,
        token=token,
        root_certificate=root_certificate,
        on_progress=on_progress,
        max_bytes=max_bytes,
    )


def record(
    hosts: Iterable[str],
    *,
    destination: Destination,
    request: ProfileRequest,
    delay_ms: int = 0,
    attempts: int = 3,
    allow_partial: bool = False,
    token: str | None = None,
    root_certificate: bytes | None = None,
    on_progress: Callable[[HostOutcome], None] | None = None,
    max_bytes: int = MAX_ANSWER_BYTES,
) -> Outcome:
    """Send one request to all hosts at once, and write each host's recording.

    The addresses are used as given; `trace` parses what users write.
    """
    grpc = grpc_module()
    if root_certificate is not None and _CERTIFICATE not in root_certificate:
        raise BadUsage(
            "the file of --certificate has no certificate; give a PEM file, which has "
            f"a line {_CERTIFICATE.decode()}."
        )
    if token is not None:
        checked_token(token, "--token, STEPSCOPE_TOKEN")
    callers = []
    for host in hosts:
        # A server in this user's registry gets the token that it registered.
        known = listening_programs.server_at_address(host)
        dialled = None
        if known is not None:
            # If encrypted, use the given host name, which the certificate contains.
            dialled = known.address if root_certificate is None else host
        callers.append(
            Caller(
                grpc,
                host,
                token=token if known is None else known.token,
                root_certificate=root_certificate,
                max_bytes=max_bytes,
                dialled=dialled,
            )
        )
    try:
        slowest = _call_in_parallel(callers, Caller.compare_clocks, None)
        delay_ns = delay_ms * _NS_PER_MS
        if len(callers) > 1:
            delay_ns = max([delay_ns, *(_ROUND_TRIPS * ns for ns in slowest)])
        start_ns = time.time_ns() + delay_ns if delay_ns else 0
        outcomes = _call_in_parallel(
            callers,
            lambda caller: caller.record_host(
                request, destination, attempts=attempts, start_ns=start_ns
            ),
            on_progress,
        )
    finally:
        for caller in callers:
            caller.hang_up()
    outcome = Outcome(
        run=destination.run, directory=destination.place, all=tuple(outcomes)
    )
    if not outcome.hosts or (outcome.problems() and not allow_partial):
        raise CaptureFailed(outcome)
    return outcome


def _make_request(
    duration_ms: int, run: str, options: ProfilerOptions | None, steps: int
) -> ProfileRequest:
    options = options or ProfilerOptions()
    return ProfileRequest(
        duration_ms=duration_ms,
        max_events=1_000_000,
        tools=("xplane.pb",),
        opts=ProfileOptions(
            version=1,
            enable_hlo_proto=True,
            include_dataset_ops=True,
            duration_ms=duration_ms,
            session_id=run,
            steps=steps,
            **{name: getattr(options, name) for name in TRACER_LEVELS},
        ),
        session_id=run,
        emit_xspace=True,
    )


def _call_in_parallel(
    callers: list[Caller],
    call: Callable[[Caller], Any],
    on_progress: Callable[[HostOutcome], None] | None,
) -> list[Any]:
    answers: dict[int, Any] = {}

    def work(number: int, caller: Caller) -> None:
        answers[number] = call(caller)
        if on_progress is not None:
            on_progress(answers[number])

    threads = [
        threading.Thread(target=work, args=(number, caller), daemon=True)
        for number, caller in enumerate(callers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [answers[number] for number in range(len(callers))]
