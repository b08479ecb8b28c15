"""Sphinx configuration; `make docs` builds the pages with the installed package."""

from __future__ import annotations

import sys
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

import guerdon
from guerdon.reasons import REASONS

HERE = Path(__file__).parent

project = "guerdon"
copyright = "the guerdon authors"
release = guerdon.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_title = f"guerdon {release}"
default_role = "code"  # docstrings write `name` in single backticks
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_mock_imports = ["torch"]  # the losses name its types; the documentation needs no training library
suppress_warnings = ["myst.xref_missing"]  # links of the README to files of the repository


class Reasons(Directive):
    """The table of machine codes, as a definition list."""

    def run(self) -> list[nodes.Node]:
        items = [
            nodes.definition_list_item("", nodes.term("", "", nodes.literal("", code)), nodes.definition("", nodes.paragraph("", meaning)))
            for code, meaning in REASONS.items()
        ]
        return [nodes.definition_list("", *items)]


def setup(app: Sphinx) -> None:
    app.add_directive("reasons", Reasons)
    sys.path.insert(0, str(HERE))
    import make_recipes

    make_recipes.draw(HERE / "_generated" / "gate_weights.svg")  # drawn at each build, not kept in the repository
