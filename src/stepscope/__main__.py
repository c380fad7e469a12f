"""`python -m stepscope` is `stepscope`."""

from __future__ import annotations

from stepscope.cli.main import main

if __name__ == "__main__":
    main()
