"""Nsight Compute: its tables (CSV), and reports through the `ncu` of this machine."""

from stepscope.formats.nsight_compute.trace import printed_tables, read, read_report

__all__ = ["printed_tables", "read", "read_report"]
