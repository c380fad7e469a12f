"""Kinds of exchange by name, and what of the bytes a link carries."""

from __future__ import annotations

import pytest

from stepscope.derive.collectives.arguments import KINDS, bus_share, collective_kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("allreduce", "all-reduce"),
        ("allreduce_coalesced", "all-reduce"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(Args)", "all-reduce"),
        ("void vllm::cross_device_reduce_2stage<__half, 8>", "all-reduce"),
        ("nccl:_reduce_scatter_base", "reduce-scatter"),
        ("CollectiveReduceScatterV2", "reduce-scatter"),
        ("_allgather_base", "all-gather"),
        ("all-gather-start", "all-gather"),
        ("CollectiveGatherV2", "all-gather"),
        ("all_to_allv", "all-to-all"),
        ("ragged-all-to-all", "all-to-all"),
        ("All2All_Pooled_Req", "all-to-all"),
        ("c10d::alltoall_base_", "all-to-all"),
        ("collective-permute-done", "send-receive"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", "send-receive"),
        ("_broadcast_oop", "broadcast"),
        ("_reduce_oop", "reduce"),
        ("c10d::gather_", "gather"),
        ("c10d::barrier", "barrier"),
        ("ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", None),
        ("rccl_main_kernel", None),
        ("wait", None),
    ],
)  # fmt: skip
def test_the_kind_is_in_the_name(name: str, kind: str | None) -> None:
    assert collective_kind(name) == kind
    assert kind is None or kind in KINDS


@pytest.mark.parametrize(
    ("kind", "members", "share"),
    [
        # Each of 8 members sends 7 of 8 parts to reduce them, and 7 to spread them.
        ("all-reduce", 8, 14 / 8),
        ("all-gather", 8, 7 / 8),
        ("reduce-scatter", 2, 1 / 2),
        ("all-to-all", 4, 3 / 4),
        ("broadcast", 4, 1.0),
        ("send-receive", 2, 1.0),
        ("all-reduce", 1, 0.0),
    ],
)
def test_a_link_carries_a_part_of_the_bytes(
    kind: str, members: int, share: float
) -> None:
    assert bus_share(kind, members) == share
