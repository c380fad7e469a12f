"""Merging of several profile messages into one."""
