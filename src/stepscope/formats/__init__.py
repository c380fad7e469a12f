"""Readers: bytes of a known format become the tables of a trace."""

from stepscope.formats.opening import open_hosts, read
from stepscope.formats.reader import READERS

__all__ = ["READERS", "open_hosts", "read"]
