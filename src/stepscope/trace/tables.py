"""Tables of a profile, as declared in `tables.md` in this folder."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from stepscope.trace.schema import read_tables
from stepscope.unavailable import Unavailable

TABLES: Final = read_tables(Path(__file__).with_name("tables.md"))

TRACKS: Final = TABLES["tracks"]
EVENT_TYPES: Final = TABLES["event_types"]
AGGREGATES: Final = TABLES["aggregates"]
STATS: Final = TABLES["stats"]
TYPE_STATS: Final = TABLES["type_stats"]
DEVICE_ACTIVITY: Final = TABLES["device_activity"]
GEOMETRIES: Final = TABLES["geometries"]
LAUNCHES: Final = TABLES["launches"]
ALLOCATIONS: Final = TABLES["allocations"]
ITERATORS: Final = TABLES["iterators"]
PARAMETERS: Final = TABLES["parameters"]
HLO_OPS: Final = TABLES["hlo_ops"]
DEVICES: Final = TABLES["devices"]
KERNEL_METRICS: Final = TABLES["kernel_metrics"]
KERNEL_METRIC_VALUES: Final = TABLES["kernel_metric_values"]
KERNEL_RULE_RESULTS: Final = TABLES["kernel_rule_results"]
ENVIRONMENT: Final = TABLES["environment"]
QUALITY: Final = TABLES["quality"]

TRACK_KINDS: Final = TRACKS.categories("kind")
#: Kinds of derived tracks. They repeat time of other tracks, so totals exclude them.
DERIVED_LINES: Final = TRACKS.categories("derived")
#: Kinds of device activity. During `transfer_wait` the device computes nothing; it
#: waits for a transfer that began earlier.
ACTIVITY_KINDS: Final = DEVICE_ACTIVITY.categories("kind")

#: Prefix of the names of intervals in which a thread had no core, and of no others.
OFF_CORE: Final = "off the core: "

#: Values of the column `kind` of the tables `stats` and `type_stats`.
DOUBLE: Final = 2
UINT: Final = 3
INT: Final = 4
PLACE_TEXT: Final = 5
PLACE_BYTES: Final = 6
REF: Final = 7

NOT_MEASURED: Final = Unavailable(
    code="NOT_RECORDED",
    reason="no metrics of Nsight Compute were given.",
    remedy="Measure the kernels with `ncu --set full --csv --page raw`, and give the "
    "table with the recording: `--kernels FILE`.",
)
#: Name of a table that only a separate file provides → reason why it is missing.
#: Readers of recordings omit these tables. Nsight Compute runs kernels repeatedly, one
#: at a time, so the times that it measures do not belong to any timeline.
SEPARATE: Final = {
    schema.name: NOT_MEASURED
    for schema in (KERNEL_METRICS, KERNEL_METRIC_VALUES, KERNEL_RULE_RESULTS)
}
