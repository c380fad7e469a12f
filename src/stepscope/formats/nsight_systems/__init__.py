"""Reader of Nsight Systems databases, the SQLite export of a report, plain or gzip."""

from stepscope.formats.nsight_systems.trace import read, read_report, recorded_together

__all__ = ["read", "read_report", "recorded_together"]
