"""Overview page: where the step time went."""

from stepscope.analysis.overview_page.page import (
    Options,
    OverviewPageResult,
    analyse,
)

__all__ = ["Options", "OverviewPageResult", "analyse"]
