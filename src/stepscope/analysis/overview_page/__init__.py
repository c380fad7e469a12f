"""Overview page: where the step time went."""

from stepscope.analysis.options import OverviewPageOptions as Options
from stepscope.analysis.overview_page.page import NEEDS, OverviewPageResult, analyse

__all__ = ["NEEDS", "Options", "OverviewPageResult", "analyse"]
