"""Batches as Ray Data passes them (Arrow tables, pandas frames, mappings of NumPy arrays): rows out of them, new columns onto them.

Columns that were there are never converted. New columns have one type in every batch, also where all of it is null. No scoring here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from guerdon.errors import ConfigError

__all__ = ["Columns", "first_values", "names_of", "plain", "read", "sample_of", "with_columns"]

Columns = Mapping[str, tuple[str, Sequence[Any]]]
"""New columns: kind (`float`, `bool` or `text`) and values, None where there is none."""


def names_of(batch: Any) -> list[str] | None:
    """The columns of a batch; None for what is none."""
    if _is_arrow(batch):
        return list(batch.column_names)
    return list(batch.keys()) if isinstance(batch, Mapping) or hasattr(batch, "iterrows") else None


def read(batch: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows of a batch as plain Python objects, and what each column holds (`sample_of`, `first_values`).

    In pandas and NumPy NaN stands for nothing, so it becomes None.
    """
    if _is_arrow(batch):
        rows = _rows(batch.column_names, [_cells(column) for column in batch.columns])
        sample = sample_of(batch.schema)
        untold = [name for name, value in sample.items() if value is None]
        return rows, {**sample, **first_values({name: row[name] for name in untold} for row in rows)}
    names = names_of(batch)
    if names is None:
        raise ConfigError(f"RewardActor: expected a batch of Ray Data, got {type(batch).__name__}; use map_batches, or score(rows)")
    rows = _rows(names, [[plain(cell) for cell in batch[name]] for name in names])
    return rows, {**dict.fromkeys(names), **first_values(rows)}


def _rows(names: Sequence[str], columns: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True)]


def plain(value: Any) -> Any:
    """A cell of a frame without NumPy and pandas: arrays are lists, NaN and NA are None.

    >>> import numpy as np
    >>> plain({"ids": np.array([1, 2]), "n": np.int64(3), "x": np.float64("nan")})
    {'ids': [1, 2], 'n': 3, 'x': None}
    """
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if type(value).__module__ == "numpy":
        return plain(value.tolist())
    if type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value):
        return None
    return value


def sample_of(schema: Any) -> dict[str, Any]:
    """What the columns of an Arrow schema hold, told by a value of the kind: texts, lists and structs differ; None where nothing tells."""
    return {field.name: _value_of(field.type) for field in schema}


def first_values(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The first value of each key that is not None; None where all are."""
    found: dict[str, Any] = {}
    for row in rows:
        found.update((key, value) for key, value in row.items() if found.get(key) is None)
    return found


def with_columns(batch: Any, columns: Columns, spans: Sequence[int] | None) -> Any:
    """The batch with further columns. `spans`: how many values each row has, where its cells are lists of them.

    Columns on NumPy batches are Arrow arrays: NumPy has no null.
    """
    if _is_arrow(batch):
        for name, (kind, values) in columns.items():
            batch = batch.append_column(name, _array(kind, values, spans))
        return batch
    if spans is not None:
        raise ConfigError("RewardActor: rows that hold lists of rollouts need Arrow batches: pass batch_format='pyarrow' to map_batches")
    if isinstance(batch, Mapping):
        return {**batch, **{name: _array(kind, values, None) for name, (kind, values) in columns.items()}}
    import pandas

    dtypes = {"float": "Float64", "bool": "bool", "text": "string"}
    new = {name: pandas.array(list(values), dtype=dtypes[kind]) for name, (kind, values) in columns.items()}
    return pandas.concat([batch, pandas.DataFrame(new, index=batch.index)], axis=1)


def _is_arrow(batch: Any) -> bool:
    return hasattr(batch, "column_names") and hasattr(batch, "append_column")


def _cells(column: Any) -> list[Any]:
    try:
        cells = column.to_pylist()
    except UnicodeDecodeError:
        cells = [_cell(scalar) for scalar in column]
    return [plain(cell) for cell in cells] if _is_extension(column.type) else cells


def _cell(scalar: Any) -> Any:
    """A cell of a column that holds invalid UTF-8 somewhere."""
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return scalar.as_buffer().to_pybytes().decode("utf-8", "replace") if hasattr(scalar, "as_buffer") else None


def _value_of(kind: Any) -> Any:
    import pyarrow.types as types

    if types.is_dictionary(kind):
        return _value_of(kind.value_type)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return ""
    if any(
        is_it(kind)
        for is_it in (types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view, types.is_large_list_view)
    ):
        return [_value_of(kind.value_type)]
    if types.is_struct(kind):
        return {field.name: _value_of(field.type) for field in kind}
    return None if types.is_null(kind) or _is_extension(kind) else True


def _is_extension(kind: Any) -> bool:
    """Ray's tensors and Python objects."""
    return hasattr(kind, "extension_name")


def _array(kind: str, values: Sequence[Any], spans: Sequence[int] | None) -> Any:
    import pyarrow

    array = pyarrow.array(list(values), {"float": pyarrow.float64(), "bool": pyarrow.bool_(), "text": pyarrow.string()}[kind])
    if spans is None:
        return array
    offsets = pyarrow.array([0, *accumulate(spans)], pyarrow.int32())
    return pyarrow.ListArray.from_arrays(offsets, array)
