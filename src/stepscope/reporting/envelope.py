"""The envelope of an answer: its profile, and doubts about the recording."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.derive.consistency import consistency
from stepscope.unavailable import Missing, Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData


#: Version of the answers: the JSON of tools and reports, and tables in CSV and Parquet
#: (docs/python.md#what-schema-promises).
SCHEMA: Final = 1


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """An accelerator that the capture listed.

    Attributes:
        host: Name of the host that the device belongs to.
        device: Ordinal of the device on its host.
        type: "GPU", "TPU" or another kind.
        name: Product name; null if not recorded.
        compute_capability: Compute capability as `major.minor`; null if not recorded.
        activities: Number of activities (kernels, copies, …) recorded on the device.
    """

    host: str
    device: int
    type: str
    name: str | None
    compute_capability: str | None
    activities: int


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """Run, hosts and devices that the numbers come from.

    Attributes:
        run: Name of the run.
        hosts: Names of the hosts; each host is one recorded process.
        devices: Accelerators that the captures listed.
        ranks: Host → rank of its process in the run; only hosts with a recorded rank.
        processes: Number of processes of the run; null if no capture recorded it.
    """

    run: str
    hosts: tuple[str, ...]
    devices: tuple[Device, ...]
    ranks: dict[str, int] = {}
    processes: int | None = None


class Doubt(msgspec.Struct, frozen=True, kw_only=True):
    """One doubt about a recording (a row of `quality`); `host` null means the run."""

    host: str | None
    kind: str
    severity: str
    scope: str
    message: str
    count: int | None
    remedy: str | None


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of one tool, with the profile, its doubts and its missing values.

    Definition: docs/definitions/times-and-values.md#the-json-of-an-answer.

    Attributes:
        schema: Version of the fields of this envelope.
        tool: Name of the tool.
        profile: Run, hosts and devices that the numbers come from.
        unavailable: Why the tool has no result; null if it has one.
        missing: Null fields of the result, each with the reason.
        quality: Doubts about the recording.
        inputs: Numbers of events and rows that the tool read.
        data: Result of the tool; null if `unavailable` gives a reason.
    """

    schema: int = SCHEMA
    tool: str
    profile: Profile
    unavailable: Unavailable | None
    missing: tuple[Missing, ...]
    quality: tuple[Doubt, ...]
    inputs: dict[str, object]
    data: msgspec.Struct | None


def describe_profile(profile: ProfileData) -> Profile:
    """Return run, hosts and devices of a profile."""
    devices: list[Device] = []
    for host in profile.hosts:
        table = profile.table(host, "devices")
        if isinstance(table, Unavailable):
            continue
        devices += (
            Device(
                host=host,
                device=row["device"],
                type=row["type"],
                name=row["name"],
                compute_capability=None
                if row["cc_major"] is None
                else f"{row['cc_major']}.{row['cc_minor'] or 0}",
                activities=row["activities"],
            )
            for row in table.iter_rows(named=True)
        )
    return Profile(
        run=profile.run,
        hosts=profile.hosts,
        devices=tuple(devices),
        ranks=_recorded_numbers(profile, "rank"),
        processes=max(_recorded_numbers(profile, "processes").values(), default=None),
    )


def _recorded_numbers(profile: ProfileData, column: str) -> dict[str, int]:
    tables = {host: profile.table(host, "environment") for host in profile.hosts}
    return {
        host: table[column][0]
        for host, table in tables.items()
        if not isinstance(table, Unavailable) and table[column][0] is not None
    }


def recording_doubts(profile: ProfileData) -> tuple[Doubt, ...]:
    """Return all rows of `quality`, and the contradictions in the recordings."""
    doubts: list[Doubt] = []
    for host in profile.hosts:
        noticed = profile.derived(host, consistency)
        notes = [*profile.trace(host).quality_notes()]
        notes += () if isinstance(noticed, Unavailable) else noticed
        doubts += (Doubt(host=host, **msgspec.structs.asdict(note)) for note in notes)
    return tuple(doubts)


def result_doubts(result: msgspec.Struct | Unavailable) -> tuple[Doubt, ...]:
    """Return the doubts of a tool about the run as a whole."""
    return tuple(
        Doubt(host=None, **msgspec.structs.asdict(note))
        for note in getattr(result, "quality", ())
    )
