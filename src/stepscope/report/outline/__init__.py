"""Answers as headings, sentences and tables, before they are text or Markdown."""
