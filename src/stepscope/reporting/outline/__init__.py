"""Outlines: headings, sentences and tables of an answer, for text and Markdown."""
