"""Sentences about a result on the page of its tool."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from stepscope.reporting.words.names import CATEGORY_NAMES, as_sentence, ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from stepscope.analysis.inference_profile import InferenceProfileResult
    from stepscope.analysis.pod_viewer import PodViewerResult
    from stepscope.analysis.pod_viewer.comparison import SlowestWorker
    from stepscope.unavailable import Missing

#: Maximum number of null fields named for one reason; `--table missing` lists all.
_MAX_FIELDS: Final = 8
_BASIS_TEXTS: Final = {
    "device_work": "Its device works longest",
    "step_time": "Its steps take longest",
}


def page_sentences(tool: str, result: object) -> dict[str, str]:
    """Return the sentences about a result by key; most tools have none."""
    write_words = _PAGE_TEXTS.get(tool)
    return {} if write_words is None else write_words(result)


def reason_sentences(missing: Sequence[Missing]) -> Iterator[str]:
    """Write each reason why fields of a result are null, with these fields."""
    fields: dict[tuple[str, str], list[str]] = defaultdict(list)
    for entry in missing:
        fields[entry.reason, entry.remedy].append(entry.field)
    for (reason, remedy), names in fields.items():
        listed = ", ".join(names)
        if len(names) > _MAX_FIELDS:
            more = len(names) - _MAX_FIELDS + 1
            listed = f"{', '.join(names[: _MAX_FIELDS - 1])} and {more} more"
        yield f"– {listed}: {as_sentence(reason)} {remedy}"


def worker_name(host: str, device: int | None) -> str:
    """Write the host of a worker, and its device if it has one."""
    return host if device is None else f"{host}, device {device}"


def slowest_worker_texts(result: PodViewerResult) -> tuple[str, str]:
    """Write the slowest worker and why it is slow; or why none is slowest, and ""."""
    slowest = result.slowest
    if slowest is None:
        why = [entry.reason for entry in result.missing if entry.field == "slowest"]
        return " ".join(why), ""
    steps = f", in {slowest.steps} of {slowest.of_steps} steps"
    if slowest.of_steps == 1:
        steps = ""
    name = worker_name(slowest.host, slowest.device)
    cause = _cause_sentence(slowest, has_steps=not _has_no_steps(result))
    if slowest.waited_for_ms is not None:
        because = (
            f"The other workers waited for it in collectives, "
            f"{ms(slowest.waited_for_ms)} in total. {cause}"
        ).strip()
        # A worker that waits for no other worker may have the shortest steps.
        return f"The other workers wait for {name}{steps}.", because
    because = f"{_BASIS_TEXTS[slowest.by]}. {cause}".strip()
    return f"{name} is the slowest worker{steps}.", because


def _has_no_steps(result: PodViewerResult) -> bool:
    """Return whether no steps are known and the whole recording counts as one step."""
    return len(result.steps) == 1 and result.steps[0].step is None


def _cause_sentence(slowest: SlowestWorker, *, has_steps: bool) -> str:
    if slowest.cause is None:
        return ""
    more = ms(slowest.excess_ms[slowest.cause])
    if slowest.cause == "late_start":
        return (
            f"It starts its steps {more} later than the median of the other workers: "
            "the delay is before the step."
            if has_steps
            else f"It starts to compute {more} later than the median of the other "
            "workers."
        )
    what = CATEGORY_NAMES[slowest.cause].lower()
    each = " a step" if has_steps else ""
    return (
        f"It spends {more}{each} more on {what} than the median of the other workers."
    )


def _pod_texts(result: PodViewerResult) -> dict[str, str]:
    verdict, because = slowest_worker_texts(result)
    take = "take" if result.in_lock_step else "do not take"
    together = f"The hosts {take} part in the same steps."
    if _has_no_steps(result):
        together = "No steps are known: the whole recording is compared."
    return {"verdict": verdict, "because": because, "together": together}


def _request_texts(result: InferenceProfileResult) -> dict[str, str]:
    latency, slow = result.latency_ms, result.slow
    texts = {
        "latencies": f"Half of the requests take up to {ms(latency.p50)}, 95 % up to "
        f"{ms(latency.p95)}, 99 % up to {ms(latency.p99)}."
    }
    if slow is not None:
        requests = f"{slow.requests:,} requests" if slow.requests != 1 else "1 request"
        part = slow.waited_for
        part_text = (
            "spread over all parts"
            if part is None
            else CATEGORY_NAMES.get(part, part.replace("_", " ")).lower()
        )
        texts["slow"] = (
            f"{requests} took {ms(slow.threshold_ms)} or longer, {ms(slow.latency_ms)} "
            f"on average, against {ms(slow.typical_ms)} of the other requests. Most of "
            f"the difference is {part_text}."
        )
    return texts


_PAGE_TEXTS: Final[dict[str, Callable[[Any], dict[str, str]]]] = {
    "inference_profile": _request_texts,
    "pod_viewer": _pod_texts,
}
