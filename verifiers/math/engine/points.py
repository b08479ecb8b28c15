"""The points at which two expressions are compared: fixed for each set of names, of every sign and size."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from zlib import crc32

__all__ = ["Point", "integer_points", "real_points"]

Point = dict[str, Fraction]

_RANGES = ((64, 190), (-150, -20), (5, 60), (-62, 125), (200, 700), (-600, 600), (40_000, 90_000), (-90_000, -40_000))
"""In 64ths: above one, negative, below one, mixed, large, mixed and large, and far out on both sides, where `|x - 100|` is `x - 100`."""
_WHOLE = ((1, 6), (4, 15), (2, 30), (1, 9), (7, 60), (1, 4), (10, 40), (1, 20))


def _pick(name: str, salt: int, low: int, high: int) -> int:
    return low + crc32(f"{name}/{salt}".encode("utf-8", "replace")) % (high - low + 1)


@lru_cache(maxsize=256)
def _real(names: tuple[str, ...]) -> tuple[Point, ...]:
    return tuple({name: Fraction(2 * _pick(name, k, *bounds) + 1, 128) for name in names} for k, bounds in enumerate(_RANGES))


@lru_cache(maxsize=256)
def _integer(names: tuple[str, ...]) -> tuple[Point, ...]:
    return tuple({name: Fraction(_pick(name, 100 + k, *bounds)) for name in names} for k, bounds in enumerate(_WHOLE))


def real_points(names: Iterable[str]) -> tuple[Point, ...]:
    """Eight points over the reals."""
    return _real(tuple(sorted(names)))


def integer_points(names: Iterable[str]) -> tuple[Point, ...]:
    """Eight points of positive integers, in every order of size."""
    return _integer(tuple(sorted(names)))
