"""What a program of a test appends to wait until its recording is in a file.

A busy machine stores later than it should: a program that is to be killed waits for
that, and not for a time.
"""

from __future__ import annotations

from typing import Final

#: `stored(FOLDER)`: whether all that was annotated until then came into a file below.
STORED: Final = """
def stored(folder, patience_s=60):
    import pathlib, time
    import stepscope as ss
    with ss.Trace("stored until here"):
        pass
    end_s = time.monotonic() + patience_s
    while time.monotonic() < end_s:
        files = [it for it in pathlib.Path(folder).rglob("*") if it.is_file()]
        if any(b"stored until here" in it.read_bytes() for it in files):
            return True
        time.sleep(0.01)
    return False
"""
