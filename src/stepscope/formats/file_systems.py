"""Access to file systems named by a URL (`s3://…`, `gs://…`), through fsspec."""

from __future__ import annotations

from typing import Any, Final

from stepscope.errors import BadInput
from stepscope.patterns import Pattern

#: A URL scheme needs at least two letters, because one letter is a Windows drive.
_URL: Final = Pattern(r"[A-Za-z][A-Za-z0-9+.-]+(::[a-z0-9+.-]+)*://")
_INSTALL: Final = "Install it with: pip install fsspec s3fs gcsfs."


def is_url(text: str) -> bool:
    """Return whether a path is a URL of another file system."""
    return _URL.match(text) is not None


# The return type is `Any` because fsspec ships no types.
def file_system(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in that file system.

    Raises:
        BadInput: A package is missing, the scheme is unknown, or the file system's
            package refuses access, mostly because credentials are missing.
    """
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415 - optional package, needed only for URLs
    except ImportError as error:
        raise BadInput.at(
            url, "needs the package fsspec, which is not installed", _INSTALL
        ) from error
    try:
        system, top = url_to_fs(url)
    except ImportError as error:
        raise BadInput.at(
            url,
            f"needs a package that is not installed ({' '.join(str(error).split())})",
            _INSTALL,
        ) from error
    except ValueError as error:
        raise BadInput.at(
            url,
            f"is not a URL that can be read ({error})",
            "Use s3://, gs:// or another scheme that fsspec knows.",
        ) from error
    except Exception as error:
        # Packages for file systems raise exceptions of any type.
        message = " ".join(str(error).split()) or "no reason given"
        raise BadInput.at(
            url,
            f"cannot be reached ({type(error).__name__}: {message})",
            "Check the URL and the credentials of this machine.",
        ) from error
    return system, str(top)
