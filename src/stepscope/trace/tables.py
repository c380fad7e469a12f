"""The tables of a profile, as `tables.md` beside this file declares them."""

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

NOT_MEASURED: Final = Unavailable(
    code="NOT_RECORDED",
    reason="no metrics of Nsight Compute were given.",
    remedy="Measure the kernels with `ncu --set full --csv --page raw`, and give the "
    "table beside the recording: `--kernels FILE`.",
)
#: Tables that no recording holds, and why they are absent until a file of their own is
#: given beside it: readers of recordings leave them out. Nsight Compute runs kernels
#: again and again, one at a time, so their times belong to no timeline.
BESIDE: Final = {
    schema.name: NOT_MEASURED
    for schema in (KERNEL_METRICS, KERNEL_METRIC_VALUES, KERNEL_RULE_RESULTS)
}
