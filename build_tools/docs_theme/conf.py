"""How Sphinx builds the site; `docs_site.py` names this folder and makes the pages."""

project = "stepscope"
extensions = ["myst_parser"]
highlight_language = "none"  # commands and what they print
# Pages are written for a repository's own viewer: anchors as it gives them, and nothing
# of MyST's syntax in running text.
myst_heading_anchors = 6
myst_disable_syntax = [
    "myst_line_comment",
    "myst_block_break",
    "myst_role",
    "myst_target",
]

html_theme = "furo"
html_title = "stepscope"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
