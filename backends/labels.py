"""Labels of one column, as stacks that hand a reward one column carry them: the answer, or a JSON object of answer and columns."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["split_label"]

_LIKE_JSON = re.compile(r"""\{\s*(?:"[^"]{0,200}"|'[^']{0,200}')\s*:""")


def split_label(label: Any, names: frozenset[str] = frozenset({"answer"})) -> tuple[Any, dict[str, Any]]:
    """Answer and columns. A label that is an object, or its JSON, and has one of the keys `names` holds columns; any other is the answer
    itself, objects as objects: a check that wants text then says BAD_REFERENCE, where it would find every completion wrong against the
    JSON of an object under another key. OpenRLHF's empty label (no `--data.label_key`) is no answer, nor is broken JSON.

    >>> split_label('{"answer": "4", "data_source": "gsm8k"}'), split_label("4"), split_label('{"inputs": ["1"]}')
    (('4', {'data_source': 'gsm8k'}), ('4', {}), ({'inputs': ['1']}, {}))
    """
    if isinstance(label, str):
        if not label:
            return None, {}
        if label.lstrip()[:1] == "{":
            try:
                label = json.loads(label)
            except (ValueError, RecursionError):  # or a plain label that merely starts with a brace
                return None if _LIKE_JSON.match(label.lstrip()) else label, {}
    if isinstance(label, Mapping) and not names.isdisjoint(label):
        columns = {str(key): value for key, value in label.items()}
        return columns.pop("answer", None), columns
    return label, {}
