"""What `model_views` answers: its views, and one annotation closely."""

from __future__ import annotations

from typing import Annotated

import msgspec
import polars as pl

from stepscope.analysis.model_views.annotation_detail import AnnotationDetail
from stepscope.analysis.model_views.annotation_rows import ANNOTATION_ROWS
from stepscope.analysis.model_views.rows import VIEW_ROWS
from stepscope.analysis.model_views.settings import Settings
from stepscope.analysis.model_views.source_rows import SOURCE_ROWS
from stepscope.unavailable import Missing


class ModelViewsResult(msgspec.Struct, frozen=True, kw_only=True):
    """Views of the same costs, over all selected hosts and devices.

    Attributes:
        view: Name of the view to show first.
        scope: Costs by name scope, or by module of the model; columns as far as
            selected, depth first. The roots' totals add up to all recorded time.
        graph: Costs by op, each op beneath the op that called it.
        op: Costs by op type.
        code: Costs by line of the program, each beneath the function that called it.
        source: Time by line of the program, in one list; its self times add up to the
            time in which threads ran ops or functions, and to that of all device work.
        annotation: Time in the ranges that the program named, each inside the range
            around it on its thread, and of the device work that was launched there.
        unannotated_device_us: Time of the device work that was launched in none of
            these ranges, in all of the recording; null where launches are not known.
        total_us: Time of everything that was accounted, on hosts and devices.
        flops_known_percent: Share of the total time taken by ops with known operations;
            null where no time was recorded.
        settings: The options as they were decided.
        step: Number of the step that is shown; null for all of the recording, and where
            several are asked for.
        steps: Numbers of the steps that are shown, by host; null for all of the
            recording.
        missing: Columns that hold nulls, with the reasons.
        inputs: Host → number of executions and device activities that were read.
    """

    view: str
    scope: Annotated[pl.DataFrame, VIEW_ROWS]
    graph: Annotated[pl.DataFrame, VIEW_ROWS]
    op: Annotated[pl.DataFrame, VIEW_ROWS]
    code: Annotated[pl.DataFrame, VIEW_ROWS]
    source: Annotated[pl.DataFrame, SOURCE_ROWS]
    annotation: Annotated[pl.DataFrame, ANNOTATION_ROWS]
    unannotated_device_us: float | None
    total_us: float
    flops_known_percent: float | None
    settings: Settings
    step: int | None
    steps: dict[str, tuple[int, ...]] | None
    missing: tuple[Missing, ...]
    inputs: dict[str, dict[str, int]]


class AnnotationDetailResult(ModelViewsResult, frozen=True, kw_only=True):
    """The views, of which `annotation` shows one annotation, and that one closely.

    Attributes:
        detail: The annotation that was asked for.
    """

    detail: AnnotationDetail
