"""How fast requests were served, where the program served any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.report.page import Line, more, table, wrapped
from stepscope.report.words.names import ms
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.analysis.inference_profile import InferenceProfileResult
    from stepscope.report.document import Document


def requests(document: Document, width: int) -> list[Line]:
    """Write latencies in all and by batch size; nothing where there is no request."""
    result = document.inference
    if isinstance(result, Unavailable):
        return []
    latency = result.latency_ms
    rate = result.throughput_per_s
    speed = "" if rate is None else f", {rate:,.1f} a second"
    text = (
        f"{result.request_count:,} requests{speed} · latency p50 {ms(latency.p50)} · "
        f"p99 {ms(latency.p99)} · max {ms(latency.max)}"
    )
    lines = wrapped(text, width, indent=2)
    if len(result.by_batch_size) > 1:
        lines += _by_batch_size(result, width)
    return [*lines, more("stepscope show inference_profile PATH")]


def _by_batch_size(result: InferenceProfileResult, width: int) -> list[Line]:
    body = [
        (
            f"{one.batch_size:,}",
            f"{one.requests:,}",
            ms(one.latency_ms.p50),
            ms(one.latency_ms.p99),
            "–" if one.per_item_ms is None else ms(one.per_item_ms),
        )
        for one in result.by_batch_size
    ]
    header = ("batch size", "requests", "p50", "p99", "mean of an item")
    return table(header, body, align=(">", ">", ">", ">", ">"), width=width, stretch=0)
