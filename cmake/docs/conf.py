"""Sphinx's settings for `make docs`."""
project = "Trireme"
copyright = "the Trireme developers"
extensions = ["myst_parser"]
master_doc = "docs/README"
myst_heading_anchors = 4
html_theme = "furo"
html_title = "Trireme"
html_show_sphinx = False
html_copy_source = False
html_extra_path = ["extra"]
