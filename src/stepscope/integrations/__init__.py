"""One line for the libraries that run a training; each is imported on first use."""

from stepscope.integrations.first_use import __getattr__

__all__ = ["__getattr__"]
