"""Nsight Compute: its tables (CSV), and reports through the `ncu` of this machine."""

from stepscope.formats.nsight_compute.trace import read, read_report

__all__ = ["read", "read_report"]
