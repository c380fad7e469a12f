"""Readers of Nsight Compute's tables (CSV), and of reports through the local `ncu`."""

from stepscope.formats.nsight_compute.trace import printed_tables, read, read_report

__all__ = ["printed_tables", "read", "read_report"]
