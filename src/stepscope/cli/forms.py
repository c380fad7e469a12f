"""The forms in which a command can give its answer; light enough for `--help`."""

from __future__ import annotations

from typing import Final

#: Forms of `report`.
REPORT_FORMS: Final = ("text", "json", "markdown")
#: Forms of `show`.
SHOW_FORMS: Final = ("table", "json", "csv", "parquet", "pprof")
