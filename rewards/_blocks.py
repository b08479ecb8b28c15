"""The arithmetic of `guerdon.rewards.advantages`: centre, scale, rank and whiten blocks of consecutive rows.

Rows arrive sorted by group, so a group is a block of rows and the batch is one block; every statistic is one
`ufunc.reduceat`, with no Python loop over groups. Nothing here checks arguments. Suffixes: N rows, P blocks, K terms.

Two rules make the results exact where floating point alone would not. Deviations are taken from the block's first row
before its mean is known, so equal values deviate by exactly 0; and a block whose spread is within `NOISE` of the size of
what was summed into it has no spread at all. Squares are taken of values divided by the block's largest one, so 1e-300
and 1e300 neither vanish nor overflow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from guerdon.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from guerdon.rewards.advantages import AdvantageSpec

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]
    Flags = NDArray[np.bool_]

T = TypeVar("T", bound="np.generic[Any]")

__all__ = ["LIMIT", "Blocks", "deviations", "estimate", "normalise", "ranks", "std", "weighted_sum", "whiten"]

LIMIT = 1e300
"""Largest magnitude of a value or weighted value: sums over any batch that fits in memory stay finite."""

NOISE = 16 * 2.0**-52
"""Relative spread below which values count as equal. Ten terms summed in another order differed by up to 2.5 ulps of their size."""


@dataclass(frozen=True, eq=False)
class Blocks:
    """Blocks of consecutive rows: first row and length of each. No block is empty."""

    starts_P: Ints
    counts_P: Ints

    @classmethod
    def of(cls, sorted_N: Ints) -> Blocks:
        """One block for each run of equal numbers."""
        starts = np.flatnonzero(np.concatenate(([True], sorted_N[1:] != sorted_N[:-1])))
        return cls(starts, np.diff(starts, append=len(sorted_N)))

    @classmethod
    def one(cls, rows: int) -> Blocks:
        """The whole batch."""
        return cls(np.zeros(1, dtype=np.intp), np.full(1, rows, dtype=np.intp))

    def rows(self, x_P: NDArray[T]) -> NDArray[T]:
        """Each block's value on each of its rows."""
        return np.repeat(x_P, self.counts_P)

    def flat(self, x_N: Floats, size_N: Floats) -> Flags:
        """Which blocks have no spread beyond the rounding noise of values of this size."""
        spread_P = np.maximum.reduceat(x_N, self.starts_P) - np.minimum.reduceat(x_N, self.starts_P)
        return spread_P <= NOISE * np.maximum.reduceat(size_N, self.starts_P)


def deviations(x_N: Floats, size_N: Floats, blocks: Blocks) -> Floats:
    """x minus its block's mean; exactly 0 in a block without spread."""
    dev_N = x_N - blocks.rows(x_N[blocks.starts_P])
    dev_N -= blocks.rows(np.add.reduceat(dev_N, blocks.starts_P) / blocks.counts_P)
    dev_N[blocks.rows(blocks.flat(x_N, size_N))] = 0.0
    return dev_N


def std(dev_N: Floats, blocks: Blocks, ddof: int) -> Floats:
    """Standard deviation of each block from its deviations; 0 where it has no spread or too few rows to have one."""
    largest_P = np.maximum.reduceat(np.abs(dev_N), blocks.starts_P)
    unit_P = np.where(largest_P > 0, largest_P, 1.0)
    freedom_P = blocks.counts_P - ddof
    squares_P = np.add.reduceat(np.square(dev_N / blocks.rows(unit_P)), blocks.starts_P)
    return np.where(freedom_P > 0, unit_P * np.sqrt(squares_P / np.maximum(freedom_P, 1)), 0.0)


def normalise(x_N: Floats, size_N: Floats, groups: Blocks, spec: AdvantageSpec) -> Floats:
    """One reward centred and scaled as `spec` says. Where the spread to divide by is zero, the result is 0."""
    batch = Blocks.one(len(x_N))
    if spec.scale == "rank":
        x_N = ranks(x_N, size_N, groups, spec)
        return deviations(x_N, np.abs(x_N), groups) if spec.center == "group" else x_N
    centred_N = x_N if spec.center == "none" else deviations(x_N, size_N, batch if spec.center == "batch" else groups)
    if spec.center == "loo":
        centred_N = centred_N * groups.rows(groups.counts_P / np.maximum(groups.counts_P - 1, 1))
    if spec.scale == "none":
        return centred_N
    over = groups if spec.scale == "group" else batch
    if spec.scale == "batch_centered":
        dev_N = deviations(centred_N, np.abs(centred_N), over)
    elif spec.scale == spec.center:
        dev_N = centred_N
    else:
        dev_N = deviations(x_N, size_N, over)
    std_N = over.rows(std(dev_N, over, spec.ddof))
    return np.divide(centred_N, std_N + spec.eps, out=np.zeros_like(x_N), where=std_N > 0)


def ranks(x_N: Floats, size_N: Floats, groups: Blocks, spec: AdvantageSpec) -> Floats:
    """Ranks within each block, mapped to span..-span (`linear`, rank 1 = best) or rank/G (`identity`, rank 1 = lowest)."""
    key_N = -x_N if spec.rank_transform == "linear" else x_N
    order_N = np.lexsort((key_N, groups.rows(np.arange(len(groups.starts_P)))))
    key_N, size_N = key_N[order_N], size_N[order_N]
    fresh_N = np.ones(len(x_N), dtype=bool)
    fresh_N[1:] = key_N[1:] - key_N[:-1] > NOISE * np.maximum(size_N[1:], size_N[:-1])
    fresh_N[groups.starts_P] = True
    tie_N = np.cumsum(fresh_N)
    ties = Blocks.of(tie_N)
    ordinal_N = np.arange(len(x_N)) - groups.rows(groups.starts_P) + 1.0
    low_N = ties.rows(ordinal_N[ties.starts_P])
    high_N = low_N + ties.rows(ties.counts_P) - 1
    dense_N = tie_N - groups.rows(tie_N[groups.starts_P]) + 1.0
    rank_N = {"average": (low_N + high_N) / 2, "min": low_N, "max": high_N, "dense": dense_N, "ordinal": ordinal_N}[spec.ties]
    out_N = np.empty_like(x_N)
    out_N[order_N] = rank_N
    count_N = groups.rows(groups.counts_P)
    if spec.rank_transform == "identity":
        return out_N / count_N
    return np.where(count_N > 1, spec.rank_span - 2 * spec.rank_span * (out_N - 1) / np.maximum(count_N - 1, 1), 0.0)


def weighted_sum(values_NK: Floats, weights_NK: Floats, on_NK: Flags) -> tuple[Floats, Floats]:
    """The weighted sum over the terms that are on, and the sum of the magnitudes it was made of."""
    with np.errstate(over="ignore", invalid="ignore"):
        parts_NK = np.where(on_NK, weights_NK * values_NK, 0.0)
        size_N = np.abs(parts_NK).sum(axis=1)
    if size_N.max(initial=0.0) > LIMIT:
        raise ConfigError(f"advantages: a weighted value reaches {size_N.max():.3g}, expected at most {LIMIT:g}; use smaller weights")
    return parts_NK.sum(axis=1), size_N


def whiten(x_N: Floats, size_N: Floats, tokens_N: Floats | None, ddof: int, eps: float) -> Floats:
    """Mean 0 and variance 1 over the batch: over rows, divided by std + eps; over tokens, by sqrt(var + eps)."""
    counts_N = np.ones_like(x_N) if tokens_N is None else tokens_N
    total, seen_N = counts_N.sum(), counts_N > 0
    if total <= ddof or Blocks.one(int(seen_N.sum())).flat(x_N[seen_N], size_N[seen_N])[0]:
        return np.zeros_like(x_N)
    dev_N = x_N - x_N[0]
    dev_N -= (counts_N / total) @ dev_N
    unit = np.abs(dev_N[seen_N]).max()
    spread = unit * np.sqrt(counts_N @ np.square(dev_N / unit) / (total - ddof))
    divisor = spread + eps if tokens_N is None else np.hypot(spread, np.sqrt(eps))
    return np.asarray(dev_N / divisor)


def estimate(values_NK: Floats, weights_NK: Floats, on_NK: Flags, sorted_N: Ints, spec: AdvantageSpec, tokens_N: Floats | None) -> Floats:
    """Advantages of valid rows sorted by group: combine, centre, scale, whiten."""
    groups = Blocks.of(sorted_N)
    if spec.combine == "sum_first":
        advantages_N = normalise(*weighted_sum(values_NK, weights_NK, on_NK), groups, spec)
        size_N = np.abs(advantages_N)
    else:
        normed_NK = np.zeros_like(values_NK)
        for k in range(values_NK.shape[1]):
            at_N = on_NK[:, k]
            if at_N.any():
                x_N = values_NK[at_N, k]
                normed_NK[at_N, k] = normalise(x_N, np.abs(x_N), Blocks.of(sorted_N[at_N]), spec)
        advantages_N, size_N = weighted_sum(normed_NK, weights_NK, on_NK)
    if spec.whiten != "none":
        advantages_N = whiten(advantages_N, size_N, tokens_N, spec.ddof, spec.whiten_eps)
    if spec.center in ("group", "loo"):
        advantages_N[groups.rows(groups.counts_P == 1)] = 0.0
    return advantages_N
