"""Which metrics are the columns of `kernel_metrics`, under each of their names.

A metric has the name of its counter on the raw page and with `--metrics`, and a title
on the details page; both changed with the releases.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Column → names of the metric, the best first; a title that has several meanings is
#: followed by the base unit of the one that is meant.
_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "duration_ps": ("gpu__time_duration.sum", "gpu__time_duration.avg", "Duration"),
    "registers": ("launch__registers_per_thread", "Registers Per Thread"),
    "static_shared_memory_bytes": (
        "launch__shared_mem_per_block_static",
        "Static Shared Memory Per Block",
    ),
    "dynamic_shared_memory_bytes": (
        "launch__shared_mem_per_block_dynamic",
        "Dynamic Shared Memory Per Block",
    ),
    "multiprocessors": (
        "device__attribute_multiprocessor_count",
        "launch__sm_count",
        "# SMs",
    ),
    "waves_per_multiprocessor": ("launch__waves_per_multiprocessor", "Waves Per SM"),
    "elapsed_cycles": (
        "sm__cycles_elapsed.max",
        "sm__cycles_elapsed.avg",
        "smsp__cycles_elapsed.max",
        "smsp__cycles_elapsed.avg",
        "gpc__cycles_elapsed.max",
        "Elapsed Cycles",
    ),
    "core_clock_hz": (
        "sm__cycles_elapsed.avg.per_second",
        "smsp__cycles_elapsed.avg.per_second",
        "gpc__cycles_elapsed.avg.per_second",
        "SM Frequency",
    ),
    "memory_clock_hz": ("dram__cycles_elapsed.avg.per_second", "DRAM Frequency"),
    "tensor_instructions": (
        "sm__inst_executed_pipe_tensor.sum",
        "smsp__inst_executed_pipe_tensor.sum",
    ),
    "dram_read_bytes": ("dram__bytes_read.sum", "dram__bytes_op_read.sum"),
    "dram_write_bytes": ("dram__bytes_write.sum", "dram__bytes_op_write.sum"),
    "dram_bytes": ("dram__bytes.sum",),
    "l2_bytes": ("lts__t_bytes.sum",),
    "l1_bytes": ("l1tex__t_bytes.sum",),
    "compute_percent": (
        "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        "Compute (SM) Throughput",
        "SOL SM",
    ),
    "memory_percent": (
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
        "Memory Throughput %",
        "SOL Memory",
    ),
    "dram_percent": (
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
        "dram__throughput.avg.pct_of_peak_sustained_elapsed",
        "DRAM Throughput %",
        "SOL DRAM",
    ),
    "l2_percent": (
        "lts__throughput.avg.pct_of_peak_sustained_elapsed",
        "L2 Cache Throughput",
        "SOL L2 Cache",
    ),
    "l1_percent": (
        "l1tex__throughput.avg.pct_of_peak_sustained_active",
        "L1/TEX Cache Throughput",
        "SOL L1/TEX Cache",
    ),
    "tensor_pipe_percent": (
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
        "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
        "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active",
    ),
    "achieved_occupancy_percent": (
        "sm__warps_active.avg.pct_of_peak_sustained_active",
        "Achieved Occupancy",
    ),
    "theoretical_occupancy_percent": (
        "sm__maximum_warps_per_active_cycle_pct",
        "Theoretical Occupancy",
    ),
    "block_limit_registers": (
        "launch__occupancy_limit_registers",
        "Block Limit Registers",
    ),
    "block_limit_shared_memory": (
        "launch__occupancy_limit_shared_mem",
        "Block Limit Shared Mem",
    ),
    "block_limit_warps": ("launch__occupancy_limit_warps", "Block Limit Warps"),
    "block_limit_blocks": ("launch__occupancy_limit_blocks", "Block Limit SM"),
    "global_load_requests": (
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
        "smsp__inst_executed_op_global_ld.sum",
    ),
    "global_load_sectors": ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",),
    "global_store_requests": (
        "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
        "smsp__inst_executed_op_global_st.sum",
    ),
    "global_store_sectors": ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",),
    "load_sectors_per_request": (
        "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio",
    ),
    "store_sectors_per_request": (
        "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio",
    ),
    "load_bytes_per_sector": (
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio",
    ),
    "store_bytes_per_sector": (
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio",
    ),
    "shared_memory_conflicts": (
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
        "l1tex__data_bank_conflicts_pipe_lsu.sum",
    ),
    "shared_memory_wavefronts": (
        "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
        "smsp__l1tex_data_pipe_lsu_wavefronts_mem_shared.sum",
    ),
    "l1_hit_percent": ("l1tex__t_sector_hit_rate.pct", "L1/TEX Hit Rate"),
    "l2_hit_percent": ("lts__t_sector_hit_rate.pct", "L2 Hit Rate"),
    "threads_per_instruction": (
        "smsp__thread_inst_executed_per_inst_executed.ratio",
        "Avg. Active Threads Per Warp",
    ),
}

#: Metric → its column, and how good the name is (0 is the best).
COLUMNS_OF: Final = {
    name: (column, rank)
    for column, names in _NAMES.items()
    for rank, name in enumerate(names)
}

#: Column → ways to it from other metrics: each the metrics that are summed, with what
#: a unit of each counts. A way counts only where all of its metrics were measured.
_SECTOR: Final = 32
SUMMED: Final[dict[str, tuple[Mapping[str, float], ...]]] = {
    "l2_bytes": ({"lts__t_sectors.sum": _SECTOR},),
    "l1_bytes": ({"l1tex__t_sectors.sum": _SECTOR},),
    "shared_memory_conflicts": (
        {
            "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": 1,
            "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum": 1,
        },
    ),
    "shared_memory_wavefronts": (
        {
            "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": 1,
            "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum": 1,
        },
    ),
    "local_memory_sectors": (
        {
            "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum": 1,
            "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum": 1,
        },
    ),
    **{
        f"{what}_bytes_per_sector": (
            {
                f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{op}.pct": (
                    _SECTOR / 100
                )
            },
        )
        for what, op in (("load", "ld"), ("store", "st"))
    },
    **{
        f"flops_fp{bits}": tuple(
            {
                f"{unit}__sass_thread_inst_executed_op_{letter}{op}_pred_on.sum": work
                for op, work in (("add", 1), ("mul", 1), ("fma", 2))
            }
            for unit in ("smsp", "sm")
        )
        for bits, letter in ((16, "h"), (32, "f"), (64, "d"))
    },
}

#: Operations of the Tensor Cores by type; those of integers are no FLOPs, and those
#: with and without sparsity are parts of these.
TENSOR_OPS: Final = re.compile(
    r"sm__ops_path_tensor_src_(?:fp|bf|tf)\d+(?:_dst_(?:fp|bf)\d+)?\.sum\Z"
)
#: Cycles that a warp waits between two instructions, by reason; `selected` is none.
WARP_STALLS: Final = (
    re.compile(
        r"smsp__average_warps_issue_stalled_(?!selected|\w+_not_issued)"
        r"(\w+)_per_issue_active\.ratio\Z"
    ),
    re.compile(
        r"smsp__average_warp_latency_issue_stalled_(?!selected|\w+_not_issued)"
        r"(\w+)\.ratio\Z"
    ),
)
#: All cycles between two instructions of a warp.
WARP_CYCLES: Final = (
    "smsp__average_warp_latency_per_inst_issued.ratio",
    "smsp__average_warps_active_per_issue_active.ratio",
    "Warp Cycles Per Issued Instruction",
)
