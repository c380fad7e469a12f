"""Details of one span of the timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import polars as pl

from stepscope.analysis.results.tables import package_reasons
from stepscope.analysis.timeline.relatives import (
    KERNELS,
    Activity,
    Family,
    Links,
    SameName,
    event_origin,
    missing_of_activity,
    row_of_activity,
    same_name,
    shown_activity,
    span_family,
)
from stepscope.analysis.timeline.spans import Place, host_timeline
from stepscope.analysis.trace_viewer.arguments import (
    INTEGER,
    REAL,
    TEXT,
    argument_source,
)
from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.device.correlation import correlation
from stepscope.derive.step_time.owners import CATEGORIES
from stepscope.derive.steps.chosen import activity_steps, steps
from stepscope.derive.trace_rows.step_lines import launch_values
from stepscope.unavailable import Missing, Unavailable

if TYPE_CHECKING:
    from stepscope.analysis.timeline.spans import HostTimeline
    from stepscope.array_types import Int32s
    from stepscope.derive.profile_data import ProfileData

_WHY: Final = package_reasons("timeline")

#: A value that a producer attached to an event.
Argument = int | float | str

#: Derived views whose spans are single ops or lines of source.
_VIEWS_OF_OPS: Final = ("framework_ops", "xla_ops", "source")
#: Maximum number of partners listed; the launch call of a graph may have thousands.
MAX_PARTNERS: Final = 1_000


class Partner(Place, frozen=True, kw_only=True):
    """The other end of an arrow between a launch call and a device activity.

    Attributes:
        correlation: Correlation id of both ends.
    """

    correlation: int


class SpanDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Details of one span.

    Attributes:
        host: Host of the span.
        section: Name of the section that contains the track.
        track: Row of the timeline's tracks.
        track_name: Name of the track.
        item: Row of `events` on a recorded track, row of `slices` on a derived track.
        row: Row inside the track, 0 at the top.
        name: Name as displayed.
        full_name: Name as recorded.
        category: Category of the span, one of the ten of the step breakdown.
        start_ps: Start of the span, since the start of the profile.
        dur_ps: Duration of the span.
        busy_ps: Time of the work that a derived span represents; null for a span that
            is work itself, or a step.
        self_ps: Duration without the time of nested spans; null for a derived span.
        parent: Span around this span; null for none, and for a derived span.
        children: First 100 spans directly inside this span; none for a derived span.
        children_count: Number of spans directly inside this span.
        step: Number of the step that the span belongs to; null for none.
        arguments: Values that the producer attached, by name; values that only connect
            events are left out. For a span of launch statistics, the statistics.
        arguments_of: First event of a derived span, whose values these are; null if the
            values belong to the span itself.
        activity: Device activity that the span shows; null for none.
        launched_by: Launch call that put the activity on the device; null for none.
        launched: First `MAX_PARTNERS` device activities that this call launched.
        launched_count: Number of device activities that this call launched.
        source: File and line of the op's source; null if not recorded.
        links: Op, kernel and step of the span, for links to other pages.
        same_name: Comparison with all spans of the same name.
        missing: Fields that could not be determined.
    """

    host: str
    section: str
    track: int
    track_name: str
    item: int
    row: int
    name: str
    full_name: str
    category: str
    start_ps: int
    dur_ps: int
    busy_ps: int | None
    self_ps: int | None
    parent: Place | None
    children: tuple[Place, ...] | None
    children_count: int | None
    step: int | None
    arguments: dict[str, Argument] | None
    arguments_of: Place | None
    activity: Activity | None
    launched_by: Partner | None
    launched: tuple[Partner, ...] | None
    launched_count: int | None
    source: str | None
    links: Links
    same_name: SameName
    missing: tuple[Missing, ...]


def details_of_span(
    profile: ProfileData, host: str, *, track: int, item: int
) -> SpanDetails | Unavailable:
    """Collect the details of one span from tables and derivations.

    Raises:
        BadUsage: The track does not exist, or does not have the item.
    """
    shown = host_timeline(profile, host)
    if isinstance(shown, Unavailable):
        return shown
    place = shown.place_of_item(track, item)
    items = np.array([item], np.int64)
    code = int(shown.name_codes(track, items)[0])
    about = shown.timeline.tracks.row(track, named=True)
    facts = _table_fields(profile, host, shown, track=track, item=item)
    absent = {
        field: value for field, value in facts.items() if isinstance(value, Unavailable)
    }
    activity = facts["activity"]
    is_kernel = isinstance(activity, Activity) and activity.kind in KERNELS
    event = int(shown.first_events(track, items)[0])
    op = source = None
    # A span of a scope, module or step begins with a kernel, but is not a single op.
    if event >= 0 and about["view"] in (None, *_VIEWS_OF_OPS):
        op, source = event_origin(profile, host, event)
    return SpanDetails(
        host=host,
        section=shown.timeline.sections["name"][about["section"]],
        track=track,
        track_name=about["name"],
        item=item,
        row=place.row,
        name=place.name,
        full_name=shown.timeline.full_names[code] or place.name,
        category=CATEGORIES[int(shown.item_categories(track, items)[0])],
        start_ps=place.start_ps,
        dur_ps=place.dur_ps,
        busy_ps=shown.lane_index(track).busy_of_item(item),
        source=source,
        links=Links(
            op=op,
            kernel=place.name if is_kernel else None,
            step=None if "step" in absent else facts["step"],
        ),
        same_name=same_name(shown, code, track=track, item=item),
        missing=(
            *(why.missing_field(field) for field, why in absent.items()),
            *(missing_of_activity(activity) if isinstance(activity, Activity) else ()),
        ),
        **(facts | dict.fromkeys(absent)),
    )


# The type is `Any`, because the fields of `SpanDetails` have different types.
def _table_fields(
    profile: ProfileData, host: str, shown: HostTimeline, *, track: int, item: int
) -> dict[str, Any]:
    """Return fields of a span from tables; `Unavailable` where a table is absent."""
    line = shown.timeline.line(track)
    if line is not None:
        values, source_span = _arguments_of_derived(
            profile, host, shown, track=track, item=item
        )
        row = int(line.spans.step[item - shown.lanes[track].first_item])
        numbered = profile.derived(host, steps)
        step: int | Unavailable | None = None
        if isinstance(numbered, Unavailable):
            step = numbered
        elif row >= 0:
            step = int(numbered.rows["step"][row])
        return {
            "self_ps": _WHY["derived_span"],
            "parent": None,
            "children": (),
            "children_count": 0,
            "step": step,
            "arguments": values,
            "arguments_of": source_span,
            "activity": None,
            "launched_by": None,
            "launched": (),
            "launched_count": 0,
        }
    event = item
    nested = span_family(profile, host, shown, track=track, event=event)
    return {
        **(
            dict.fromkeys(Family._fields, nested)
            if isinstance(nested, Unavailable)
            else nested._asdict()
        ),
        "step": _step_of_event(profile, host, shown, event),
        "arguments": _event_arguments(profile, host, shown, event),
        "arguments_of": None,
        "activity": shown_activity(profile, host, event),
        **_flow_partners(profile, host, shown, event),
    }


def _arguments_of_derived(
    profile: ProfileData, host: str, shown: HostTimeline, *, track: int, item: int
) -> tuple[dict[str, Argument] | Unavailable, Place | None]:
    """Return the values shown for a derived span, and the event that they belong to."""
    stats = shown.timeline.launch_stats.filter(pl.col("slice") == item)
    if len(stats):
        return launch_values(stats).row(0, named=True), None
    event = int(shown.first_events(track, np.array([item]))[0])
    track_of_event = int(shown.track_of_events(np.array([event]))[0])
    if event < 0 or track_of_event < 0:
        return {}, None
    return _event_arguments(profile, host, shown, event), shown.place_of_item(
        track_of_event, event
    )


def _event_arguments(
    profile: ProfileData, host: str, shown: HostTimeline, event: int
) -> dict[str, Argument] | Unavailable:
    stats = profile.table(host, "stats")
    if isinstance(stats, Unavailable):
        return stats
    type_ = handles(shown.events, "type")[event : event + 1]
    track = int(shown.track_of_events(np.array([event]))[0])
    section = shown.timeline.tracks["section"][track]
    on_host = np.array([shown.timeline.sections["kind"][section] != "device"])
    arguments = argument_source(profile, host).arguments_of_events(
        event, type_, on_host, ()
    )
    values: dict[str, Argument] = {}
    # This loop runs over the values of one event, not over the table.
    for key, kind, value in zip(
        arguments.key.tolist(), arguments.kind.tolist(), arguments.value, strict=True
    ):
        if kind == TEXT:
            values[arguments.keys[key]] = arguments.texts[value]
        elif kind == REAL:
            values[arguments.keys[key]] = float(value.view(np.float64))
        else:
            values[arguments.keys[key]] = int(
                value if kind == INTEGER else value.view(np.uint64)
            )
    return values


def _flow_partners(
    profile: ProfileData, host: str, shown: HostTimeline, event: int
) -> dict[str, Any]:
    matched = profile.derived(host, correlation)
    if isinstance(matched, Unavailable):
        return dict.fromkeys(("launched_by", "launched", "launched_count"), matched)
    flows = shown.timeline.flows
    row = int(np.searchsorted(flows.device_event, event))
    is_device = row < len(flows.device_event) and flows.device_event[row] == event
    launched = np.flatnonzero(flows.launch_event == event)
    listed = launched[:MAX_PARTNERS]
    launched_by = _flow_partner(shown, flows.launch_event, row) if is_device else None
    return {
        "launched_by": launched_by,
        "launched": tuple(
            _flow_partner(shown, flows.device_event, flow) for flow in listed.tolist()
        ),
        "launched_count": len(launched),
    }


def _flow_partner(shown: HostTimeline, end: Int32s, flow: int) -> Partner:
    item = np.array([end[flow]], np.int64)
    track = int(shown.track_of_events(item)[0])
    return Partner(
        track=track,
        item=int(item[0]),
        row=int(shown.timeline.row[item[0]]),
        name=shown.timeline.names[shown.events["type"][int(item[0])]],
        start_ps=shown.events["start_ps"][int(item[0])],
        dur_ps=shown.events["dur_ps"][int(item[0])],
        correlation=int(shown.timeline.flows.correlation[flow]),
    )


def _step_of_event(
    profile: ProfileData, host: str, shown: HostTimeline, event: int
) -> int | Unavailable | None:
    """Return the step of a device activity, or the step in which a host event began."""
    host_steps = profile.derived(host, steps)
    if isinstance(host_steps, Unavailable):
        return host_steps
    activity = row_of_activity(profile, host, event)
    if activity is not None:
        of_activity = profile.derived(host, activity_steps)
        if isinstance(of_activity, Unavailable):
            return of_activity
        row = int(of_activity[activity])
        return int(host_steps.rows["step"][row]) if row >= 0 else None
    starts = ints(host_steps.rows, "start_ps")
    start = shown.events["start_ps"][event]
    row = int(np.searchsorted(starts, start, side="right")) - 1
    if row < 0:
        return None
    end = host_steps.rows["end_ps"][row]
    if end is None and row + 1 == len(starts):
        end = host_steps.last_end_ps
    return int(host_steps.rows["step"][row]) if end is None or start < end else None
