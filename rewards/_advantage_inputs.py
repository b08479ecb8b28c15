"""Argument checks of `guerdon.rewards.advantages`: anything array-like in, checked arrays out. Suffixes: N rows, K terms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from guerdon.errors import ConfigError, MissingInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["check_magnitude", "group_numbers", "token_counts", "value_matrix", "vector", "weight_matrix"]


def _array(name: str, raw: Any, dtype: type) -> NDArray[Any]:
    try:
        return np.asarray(raw, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"advantages: {name} expects a rectangular array of numbers, got {raw!r:.80} ({error})") from None


def value_matrix(raw: Any) -> NDArray[np.float64]:
    """Values as N rows of K terms; None becomes NaN."""
    values = _array("values_NK", raw, float)
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or values.shape[1] == 0:
        raise ConfigError(f"advantages: values_NK expects shape (N, K) with K >= 1, or (N,), got {values.shape}")
    return values


def vector(name: str, raw: Any, rows: int, dtype: type) -> NDArray[Any]:
    """One entry a row."""
    vector = _array(name, raw, dtype)
    if vector.shape != (rows,):
        raise ConfigError(f"advantages: {name} expects shape ({rows},), one entry a row of values_NK, got {vector.shape}")
    return vector


def weight_matrix(raw: Any, rows: int, terms: int) -> NDArray[np.float64]:
    """Weights of every row and term; None is 1."""
    weights = np.ones(terms) if raw is None else _array("weights_K_or_NK", raw, float)
    if weights.shape not in ((terms,), (rows, terms)):
        raise ConfigError(f"advantages: weights_K_or_NK expects shape ({terms},) or ({rows}, {terms}), got {weights.shape}")
    if not np.isfinite(weights).all():
        raise ConfigError("advantages: weights_K_or_NK expects finite numbers, got NaN or infinity; use 0 to switch a term off")
    return np.broadcast_to(weights, (rows, terms))


def group_numbers(raw: Any, rows: int) -> NDArray[np.intp]:
    """Number the groups 0, 1, ... in order of appearance."""
    labels = raw.tolist() if hasattr(raw, "tolist") else list(raw)
    if len(labels) != rows:
        raise ConfigError(f"advantages: groups_N expects {rows} labels, one a row of values_NK, got {len(labels)}")
    try:
        numbers = {label: i for i, label in enumerate(dict.fromkeys(labels))}
    except TypeError as error:
        raise ConfigError(f"advantages: groups_N expects hashable labels such as prompt ids ({error})") from None
    return np.fromiter(map(numbers.__getitem__, labels), dtype=np.intp, count=rows)


def check_magnitude(values_NK: NDArray[np.float64], valid_N: NDArray[np.bool_], limit: float) -> None:
    """Refuse infinite or absurdly large values of valid rows."""
    too_large_NK = (np.abs(values_NK) > limit) & valid_N[:, None]  # NaN compares false
    if too_large_NK.any():
        row, term = np.argwhere(too_large_NK)[0]
        got = f"{values_NK[row, term]} in row {row}, term {term}"
        raise ConfigError(f"advantages: values_NK expects magnitudes up to {limit:g} (NaN: the term does not apply), got {got}")


def token_counts(raw: Any, valid_N: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Token counts, needed for every valid row."""
    if raw is None:
        raise MissingInput("advantages: whiten='token' expects num_tokens_N, got None; pass it or use whiten='sample'")
    tokens_N: NDArray[np.float64] = vector("num_tokens_N", raw, len(valid_N), float)
    bad = np.flatnonzero(valid_N & ~((tokens_N >= 0) & (tokens_N < np.inf)))
    if len(bad):
        raise MissingInput(f"advantages: num_tokens_N expects a count for every valid row, got {tokens_N[bad[0]]} in row {bad[0]}")
    return tokens_N
