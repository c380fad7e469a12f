"""What to do about the slowest transformation of an input pipeline, as data."""

from __future__ import annotations

from typing import Final

from stepscope.frozen import Frozen


class Upstream:
    """What a stage that fetches elements ahead was doing when it was the bottleneck."""

    #: Something that it waited for was recorded.
    WAITED: Final = "waited"
    #: What it handed out had been made before it was asked.
    READY: Final = "ready"
    #: Where its elements came from is not known.
    UNSEEN: Final = "unseen"
    #: The stage fetches nothing ahead.
    NONE: Final = ""


class Suggestion(Frozen, frozen=True, eq=True):
    """One piece of advice.

    Definition: docs/tools/tf_data_bottleneck_analysis.md#what-to-do-about-a-bottleneck.

    Attributes:
        kind: Stable name.
        types: Transformations that it is for; empty for all others.
        words: One or two short sentences.
        upstream: Only where the stage was in this state; empty for any.
        on_device: Only for the pipelines of devices.
    """

    kind: str
    types: frozenset[str]
    words: str
    upstream: str = Upstream.NONE
    on_device: bool = False


_SOURCES: Final = frozenset(
    {
        *("TFRecord", "SSTable", "RecordIO", "ArrayRecord", "TextLine"),
        *("FixedLengthRecord", "LMDB", "CSV", "FromTensor", "TensorSlice"),
        *("ExternalDataset", "Spanner", "TFColumn", "CapacitorProto"),
    }
)
_PREFETCH: Final = frozenset({"Prefetch"})

#: The first one that fits counts.
SUGGESTIONS: Final = (
    Suggestion(
        "host_pipeline",
        frozenset({"Generator"}),
        "The device's pipeline waits for the pipeline of its host: look at the "
        "bottleneck of the host's pipeline.",
        on_device=True,
    ),
    Suggestion(
        "slow_python",
        frozenset({"Generator"}),
        "Functions of Python make the elements one after the other: let worker "
        "processes make them ahead, make them once before training, or use ops of the "
        "framework in their place.",
    ),
    Suggestion(
        "slow_source",
        _SOURCES,
        "Reading is slow: keep the data near the host, read several files at once "
        "(interleave with num_parallel_calls=AUTOTUNE), and enlarge the reader's "
        "buffer.",
    ),
    Suggestion(
        "slow_service",
        frozenset({"DataService"}),
        "The data service delivers too slowly: profile its workers, and add some if "
        "they are busy.",
    ),
    Suggestion(
        "remote_source",
        frozenset({"ReverbDataset", "Reverb", "Courier"}),
        "The elements come from another host: profile that host, and the network "
        "between the two.",
    ),
    Suggestion(
        "has_parallel_form",
        frozenset({"Map", "Interleave"}),
        "This works on one element after the other: set "
        "num_parallel_calls=AUTOTUNE. Put cache() after it where its results fit "
        "into memory and are the same in every epoch.",
    ),
    Suggestion(
        "slow_although_parallel",
        frozenset({"ParallelMap", "ParallelInterleave", "MapAndBatch"}),
        "It is parallel already. To make it quicker, compare its parallelism with the "
        "number of cores, batch before mapping, or make the function cheaper.",
    ),
    Suggestion(
        "sequential",
        frozenset({"Batch"}),
        "This has one thread: set num_parallel_calls=AUTOTUNE on batch(), work on "
        "several shards at once outside of it, or cache() its results.",
    ),
    Suggestion(
        "sequential",
        frozenset({"Filter", "Unbatch", "PaddedBatch"}),
        "This has no parallel form: work on several shards at once outside of it "
        "(interleave), or cache() its results.",
    ),
    Suggestion(
        "consumer_found_data",
        _PREFETCH,
        "The consumer found an element ready, so nothing upstream held it up: look at "
        "the prefetching stage itself (handing over, locks, busy cores).",
        upstream=Upstream.READY,
    ),
    Suggestion(
        "upstream_unseen",
        _PREFETCH,
        "The making of what it handed out was not recorded: record for longer, and "
        "follow the graph upstream.",
        upstream=Upstream.UNSEEN,
    ),
    Suggestion(
        "upstream_slow",
        _PREFETCH,
        "What it fetches ahead comes too slowly: follow the graph upstream, and raise "
        "the buffer size if making and using elements do not overlap.",
    ),
    Suggestion(
        "buffer_fill",
        frozenset({"Shuffle"}),
        "Filling the shuffle buffer takes time at the start of every epoch: make the "
        "buffer smaller, or cache() before it.",
    ),
    Suggestion(
        "other",
        frozenset(),
        "No rule is known for this transformation; see "
        "https://www.tensorflow.org/guide/data_performance for what can be done.",
    ),
)
#: Where no call is slow, there is nothing to change.
NOT_SLOW: Final = Suggestion(
    "not_slow",
    frozenset(),
    "Nothing to change here. The program may still wait for input if not all of its "
    "workers were recorded.",
)
#: Where no call is slow and yet steps wait for them.
SHORT_CALLS: Final = Suggestion(
    "not_slow",
    frozenset(),
    "No stage is slow by itself. Hand over fewer and larger elements (batch earlier), "
    "or record all workers of the pipeline.",
)


def suggestion_for(stage_type: str, *, upstream: str, on_device: bool) -> Suggestion:
    """Choose the advice for a bottleneck.

    Args:
        stage_type: The transformation, without index and version.
        upstream: A value of `Upstream`.
        on_device: The pipeline is that of a device.
    """
    return next(
        one
        for one in SUGGESTIONS
        if (not one.types or stage_type in one.types)
        and one.upstream in {Upstream.NONE, upstream}
        and (on_device or not one.on_device)
    )
