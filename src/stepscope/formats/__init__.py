"""Readers: bytes of a known format become the tables of a trace."""

from stepscope.formats.opening import find, loose_run, open_hosts, open_run, read
from stepscope.formats.reader import READERS

__all__ = ["READERS", "find", "loose_run", "open_hosts", "open_run", "read"]
