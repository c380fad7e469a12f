"""`measured_kernels`: metrics from Nsight Compute, by kernel, op and launch shape.

Nsight Compute measures another run than the recorded one, so launches cannot be matched
by time. A launch is matched by its name, grid and block. If several ops launch the same
kernel, the order of launches identifies the op.

Names of one kernel differ between tools in spaces, types and parameters: `void
at::native::reduce_kernel<512, 1, float>(Op)` in one is `reduce_kernel<(int)512, (int)1,
float>` in another, and `reduce_kernel` in a third.

Definition: docs/tools/kernel_stats.md#what-nsight-compute-measured.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import ints
from stepscope.frozen import Frozen
from stepscope.patterns import UNNAMED_NAMESPACE, Pattern
from stepscope.trace.tables import KERNEL_METRICS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.array_types import Int32s, Int64s
    from stepscope.derive.device.activity_classes import ActivityClasses
    from stepscope.derive.device.kernels import Kernels

#: Types of template arguments that some tools write before the number.
_CAST: Final = Pattern(r"(?<=[<,( ])\([A-Za-z_][\w: ]*\)(?=-?\w)")
#: Namespaces in names: some tools write all namespaces, others only the last one.
_NAMESPACE: Final = Pattern(r"(?:\b\w+::)+(?=[\w~{<])")
_TRUTH: Final = Pattern(r"\b(?:true|false)\b")
_AS_NUMBER: Final = {"true": "1", "false": "0"}
#: Nameless functions: `{lambda(int)#1}` or, elsewhere, `[lambda(int) (instance 1)]`.
_BRACED: Final = Pattern(r"\{(lambda\([^{}\[\]]*?\))#(\d+)\}")
_BRACKETED: Final = Pattern(r"\[(lambda\([^{}\[\]]*?\)) ?\(instance (\d+)\)\]")
_CONST: Final = Pattern(r"\bconst\b")
_SUFFIX: Final = Pattern(r"\b(\d+)(?:ull|ul|u|ll|l)\b", re.IGNORECASE)
_IDENTIFIER: Final = Pattern(r"[A-Za-z_$][\w$.]*\Z")


class NameForms(NamedTuple):
    """One kernel name in three forms: the whole name, the signature, and the last word.

    Attributes:
        signature: Name and template arguments of the function, without namespaces.
    """

    whole: str
    signature: str
    base: str


#: Columns of `kernel_metrics` for which a mean is computed.
MEASURES: Final = tuple(
    name
    for name, dtype in KERNEL_METRICS.dtypes_from("duration_ps").items()
    if dtype != pl.String()
)
#: If a kernel uses less than this percentage of the peak of both compute and memory, it
#: is bound by neither (NVIDIA's threshold in the section Speed of Light).
_MIN_BUSY_PERCENT: Final = 60.0
_LIMITS: Final = {
    "block_limit_registers": "registers",
    "block_limit_shared_memory": "shared_memory",
    "block_limit_warps": "warps",
    "block_limit_blocks": "blocks",
}
_MEMORY_LEVELS: Final = ("dram", "l2", "l1")
_FULL_PERCENT: Final = 100.0

SHAPE: Final = tuple(f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz")
#: Confidence factor for comparing two runs. The confidence that a measured launch is
#: the recorded launch is the product of this factor and those of name, shape and order.
_TWO_RUNS_FACTOR: Final = 0.95
_OF_NAME: Final = {"whole": 1.0, "signature": 0.95, "base": 0.8}
#: Factor of the confidence if several kernels have the same base name and shape.
_SEVERAL_NAMES_FACTOR: Final = 0.6
_SHAPE_UNKNOWN_FACTOR: Final = 0.7
_OF_ORDER: Final = {"one_op": 1.0, "order": 0.9, "cycle": 0.8, "shared": 0.5}


class MeasuredKernels(Frozen, frozen=True):
    """Measured metrics of the kernels of one host.

    Attributes:
        rows: One row per class of `kernels` that was measured. Columns: `class`,
            `confidence` (0 to 1), `pairing`, `launches` (number of measured launches),
            `group` (row number shared with `members`), and the columns of
            `kernel_metrics` from `duration_ps` on as means, with values that follow
            from them (`summarise_groups`). Values of `pairing`: one_op (only one op
            launches the kernel with this shape), order (several ops, together as often
            as was measured), cycle (matched by position in a cycle that both runs
            repeat) and shared (the mean over all these ops).
        members: `group` and row of `kernel_metrics` (`row`) of each launch in a group.
        unmatched: Rows of `kernel_metrics` that no recorded kernel matches.
    """

    rows: pl.DataFrame
    members: pl.DataFrame
    unmatched: pl.DataFrame


class _Candidates(Frozen, frozen=True, eq=True):
    """The recorded kernels that may be the same kernel as a measured one."""

    classes: tuple[int, ...]
    certainty: float


class _Assigned(Frozen, frozen=True):
    """Measured launches that are assigned to classes of recorded kernels."""

    classes: tuple[int, ...]
    rows: Int64s
    certainty: float
    pairing: str


class _Recorded:
    """Classes of kernels by each of three forms of their name, and by launch shape."""

    def __init__(self, rows: pl.DataFrame) -> None:
        self.op: dict[int, str] = {}
        self.device: dict[int, int] = {}
        self._names: dict[int, str] = {}
        self._by: dict[tuple[str, str], dict[tuple[object, ...], list[int]]] = {}
        columns = ("class", "device", "kernel_name", "op_name", *SHAPE)
        # There is one row per distinct launch, so Python parses few names.
        for class_, device, name, op, *sizes in rows.select(columns).iter_rows():
            self.op[class_], self.device[class_] = op, device
            forms = name_forms(name)
            self._names[class_] = forms.signature
            shape = tuple(sizes)
            for kind, text in zip(forms._fields, forms, strict=True):
                of_shape = self._by.setdefault((kind, text), {})
                of_shape.setdefault(shape, []).append(class_)

    def find_candidates(
        self, name: str, shape: tuple[object, ...]
    ) -> _Candidates | None:
        """Return the classes whose name matches in the most exact form possible."""
        forms = name_forms(name)
        unknown = (None,) * len(SHAPE)
        for kind, text in zip(forms._fields, forms, strict=True):
            of_shape = self._by.get((kind, text), {})
            for sizes, factor in ((shape, 1.0), (unknown, _SHAPE_UNKNOWN_FACTOR)):
                classes = of_shape.get(sizes)
                if classes is None or (None in shape and sizes is shape):
                    continue
                certainty = _OF_NAME[kind] * factor * _TWO_RUNS_FACTOR
                if len({self._names[class_] for class_ in classes}) > 1:
                    certainty = min(
                        certainty, _SEVERAL_NAMES_FACTOR * factor * _TWO_RUNS_FACTOR
                    )
                return _Candidates(tuple(sorted(classes)), certainty)
        return None


def measured_kernels(
    *,
    kernel_metrics: pl.DataFrame,
    kernels: Kernels,
    activity_classes: ActivityClasses,
    device_activity: pl.DataFrame,
) -> MeasuredKernels:
    """Match each measured launch with the recorded kernels that may be the same."""
    table = kernel_metrics.with_row_index("row").cast({"row": pl.Int64})
    recorded = _Recorded(kernels.rows)
    launches: dict[_Candidates, list[int]] = {}
    lost: list[int] = []
    grouped = table.group_by(["kernel_name", *SHAPE], maintain_order=True).agg("row")
    # Match each distinct launch only once.
    for name, *shape, rows in grouped.iter_rows():
        candidates = recorded.find_candidates(name, tuple(shape))
        if candidates is None:
            lost += rows
        else:
            launches.setdefault(candidates, []).extend(rows)
    in_order = activity_classes.code[
        np.argsort(ints(device_activity, "start_ps"), kind="stable")
    ]
    assigned = [
        match
        for candidates, rows in launches.items()
        for match in _matches(candidates, np.sort(np.array(rows)), recorded, in_order)
    ]
    return _join_metrics(table, assigned, kernel_metrics[sorted(lost)])


def _matches(
    candidates: _Candidates, rows: Int64s, recorded: _Recorded, in_order: Int32s
) -> Iterator[_Assigned]:
    if len({recorded.op[class_] for class_ in candidates.classes}) == 1:
        yield _Assigned(candidates.classes, rows, candidates.certainty, "one_op")
        return
    sequence = in_order[np.isin(in_order, candidates.classes)]
    if len({recorded.device[class_] for class_ in candidates.classes}) > 1:
        # Launches on several devices alternate in an order that differs between runs.
        cycle, pairing = sequence[:0], "shared"
    elif len(rows) == len(sequence):
        cycle, pairing = sequence, "order"
    else:
        cycle, pairing = _shortest_cycle(sequence, len(rows)), "cycle"
    if not len(cycle):
        yield _Assigned(candidates.classes, rows, candidates.certainty, "shared")
        return
    assigned_class = cycle[np.arange(len(rows)) % len(cycle)]
    for class_ in candidates.classes:
        own_rows = rows[assigned_class == class_]
        if len(own_rows):
            yield _Assigned((class_,), own_rows, candidates.certainty, pairing)


def _shortest_cycle(sequence: Int32s, measured: int) -> Int32s:
    """Return the shortest sequence that all recorded launches repeat.

    The sequence's length divides the number of measured launches, and every class
    occurs. If the launches do not repeat, the result is empty.
    """
    classes = len(np.unique(sequence))
    for length in range(classes, min(measured, len(sequence) // 2) + 1):
        if measured % length:
            continue
        if np.array_equal(sequence[length:], sequence[:-length]):
            return sequence[:length]
    return sequence[:0]


def _join_metrics(
    table: pl.DataFrame, assigned: Sequence[_Assigned], unmatched: pl.DataFrame
) -> MeasuredKernels:
    members = pl.DataFrame(
        [(group, row) for group, match in enumerate(assigned) for row in match.rows],
        schema={"group": pl.Int64, "row": pl.Int64},
        orient="row",
    )
    classes = pl.DataFrame(
        [
            (
                class_,
                group,
                match.certainty * _OF_ORDER[match.pairing],
                match.pairing,
                len(match.rows),
            )
            for group, match in enumerate(assigned)
            for class_ in match.classes
        ],
        schema={
            "class": pl.Int32,
            "group": pl.Int64,
            "confidence": pl.Float64,
            "pairing": pl.String,
            "launches": pl.Int64,
        },
        orient="row",
    )
    best = classes.sort(
        *("class", "confidence", "launches", "group"),
        descending=[False, True, True, False],
    ).unique("class", keep="first", maintain_order=True)
    means = summarise_groups(members.join(table, on="row", how="left"))
    rows = best.join(means, on="group", how="left", maintain_order="left")
    return MeasuredKernels(rows, members, unmatched)


def summarise_groups(members: pl.DataFrame) -> pl.DataFrame:
    """Return the mean of each metric by `group`, null if no launch has the metric.

    Added columns: the sectors per request if only their components were measured,
    `bank_conflict_percent` (share of shared memory passes that conflicts add),
    `occupancy_limiter` (the resource that allows the fewest blocks; null at full
    occupancy), `memory_level` (the busiest: dram, l2 or l1) and `bound` (compute or
    memory; latency if neither is busy).
    """
    longest = pl.col("stall_reason").sort_by("duration_ps", nulls_last=True)
    means = members.group_by("group", maintain_order=True).agg(
        *(pl.col(name).cast(pl.Float64).mean() for name in MEASURES),
        longest.drop_nulls().last().alias("stall_reason"),
    )
    conflicts = pl.col("shared_memory_conflicts")
    wavefronts = pl.col("shared_memory_wavefronts")
    limits = [pl.col(name) for name in _LIMITS]
    known = pl.all_horizontal(limit.is_not_null() for limit in limits)
    lowest = pl.min_horizontal(limits)
    word = pl.coalesce(
        pl.when(pl.col(name) == lowest).then(pl.lit(what))
        for name, what in _LIMITS.items()
    )
    partly = pl.col("theoretical_occupancy_percent").fill_null(0) < _FULL_PERCENT
    compute, memory = pl.col("compute_percent"), pl.col("memory_percent")
    busiest = pl.max_horizontal(f"{level}_percent" for level in _MEMORY_LEVELS)
    by_percent = compute.is_not_null() & memory.is_not_null()
    return means.with_columns(
        _per_request("load"),
        _per_request("store"),
        pl.when(conflicts == 0)
        .then(pl.lit(0.0))
        .when(wavefronts > 0)
        .then(100 * (conflicts / wavefronts).clip(0, 1))
        .alias("bank_conflict_percent"),
        pl.when(known & partly).then(word).alias("occupancy_limiter"),
        pl.coalesce(
            pl.when(pl.col(f"{level}_percent") == busiest).then(pl.lit(level))
            for level in _MEMORY_LEVELS
        ).alias("memory_level"),
        pl.when(by_percent & (pl.max_horizontal(compute, memory) < _MIN_BUSY_PERCENT))
        .then(pl.lit("latency"))
        .when(by_percent & (compute >= memory))
        .then(pl.lit("compute"))
        .when(by_percent)
        .then(pl.lit("memory"))
        .alias("bound"),
    )


def _per_request(what: str) -> pl.Expr:
    requests = pl.col(f"global_{what}_requests")
    counted = pl.when(requests > 0).then(pl.col(f"global_{what}_sectors") / requests)
    given = pl.col(f"{what}_sectors_per_request")
    return pl.coalesce(counted, given).alias(f"{what}_sectors_per_request")


@cache
def name_forms(name: str) -> NameForms:
    """Return the forms of a name that are compared."""
    text = " ".join(name.split())
    clean = UNNAMED_NAMESPACE.sub("", text)
    for lambda_ in (_BRACED, _BRACKETED):
        clean = lambda_.sub(r"\1#\2", clean)
    clean = _SUFFIX.sub(r"\1", _CAST.sub("", _CONST.sub("", clean)))
    outer = _indices_outside_templates(clean)
    parameters = next((i for i in outer if i and clean[i] == "("), len(clean))
    head = clean[:parameters].rstrip() if parameters < len(clean) else clean
    outer = _indices_outside_templates(head)
    plain = "".join(head[i] for i in outer).rstrip()
    identifier = _IDENTIFIER.search(plain.rpartition("::")[2].rpartition(" ")[2])
    after_result = max((i + 1 for i in outer if head[i] == " "), default=0)
    signature = _NAMESPACE.sub("", head[after_result:].replace(" ", ""))
    signature = _TRUTH.sub(lambda match: _AS_NUMBER[match[0]], signature)
    return NameForms(text, signature, identifier[0] if identifier else signature)


def _indices_outside_templates(name: str) -> list[int]:
    indices, depth = [], 0
    for index, letter in enumerate(name):
        if letter == "<":
            depth += 1
        elif letter == ">":
            depth = max(depth - 1, 0)
        elif depth == 0:
            indices.append(index)
    return indices
