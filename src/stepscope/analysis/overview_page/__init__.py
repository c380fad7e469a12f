"""Overview page: where the step time went."""

from stepscope.analysis.overview_page.page import (
    NEEDS,
    Options,
    OverviewPageResult,
    analyse,
)

__all__ = ["NEEDS", "Options", "OverviewPageResult", "analyse"]
