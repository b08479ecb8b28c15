"""Sphinx configuration; `make docs` builds the pages with the installed package."""

import guerdon

project = "guerdon"
copyright = "the guerdon authors"
release = guerdon.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_title = f"guerdon {release}"
smartquotes = False
default_role = "code"  # docstrings write `name` in single backticks
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_mock_imports = ["torch"]  # the losses name its types; the documentation needs no training library
