"""verl's rows as rollouts: plain Python values in place of numpy's and torch's. Nothing here imports verl, numpy or torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from guerdon.rollouts import from_verl, split_label
from guerdon.types import Rollout

__all__ = ["plain", "rollout_of"]


def rollout_of(data_source: Any, text: str, ground_truth: Any, extra: Mapping[str, Any]) -> Rollout:
    """One row. `ground_truth` may hold arrays, or be an object (or its JSON) with `answer`, whose other keys are columns; `extra` is plain
    already."""
    truth = plain(ground_truth)
    answer, columns = split_label(truth)
    if answer is None or isinstance(answer, Mapping):  # tests, a schema, plain text: for the terms to read
        answer, columns = truth, {}
    return from_verl(plain(data_source), text, answer, {**columns, **extra})


def plain(value: Any) -> Any:
    """A copy with Python's containers and numbers in place of numpy's and torch's. Other objects stay.

    >>> plain({"tests": ({"inputs": ["1"]},)})
    {'tests': [{'inputs': ['1']}]}
    """
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return plain(_listed(value)) if hasattr(value, "tolist") else value


def _listed(value: Any) -> Any:
    """Lists and numbers of an array or a tensor. A float32 becomes its shortest decimal: a reference of 0.1 is 0.1, not 0.10000000149."""
    if hasattr(value, "is_floating_point"):
        value = value.detach().cpu()
        value = value.float().numpy() if value.is_floating_point() and value.dtype.itemsize < 8 else value
    dtype = getattr(value, "dtype", None)
    if getattr(dtype, "kind", "") == "f" and value.itemsize < 8:
        value = value.astype("U").astype(float)
    return value.tolist()
