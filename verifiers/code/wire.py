"""Plain data as one line of ASCII: how values leave a jail, and how they are read without trusting them.

The encoder looks at exact types and calls nothing that a value brings along (no `__eq__`, `__repr__`, `__reduce__`): a subclass of
a plain type is written as the plain value it holds, everything else is opaque. The reader (`parse`, `value`) builds plain values
only and refuses what is too large or too deep. Not a serialiser for general use: identity and cycles are not kept.

This file is also run inside jails, as it stands: it may import the standard library only, and inside functions.
"""

from __future__ import annotations

import json
import sys
from _json import encode_basestring_ascii
from collections.abc import Callable
from typing import Any

__all__ = ["Refused", "dumps", "loads", "nodes", "parse", "value"]

DEPTH = 150
NODES = 1_000_000
_WORD = 1 << 63
_DIGITS = 40
"""Longer integers are written in hexadecimal, which is read in linear time."""
_BIG = 100_000
"""Hexadecimal digits; 400,000 bits."""
_EXPONENT = 5_000
"""Of a Decimal: 1e999999999 is short, and ruinous to compare with a Fraction."""


class Refused(ValueError):
    """Text or a value that is not plain data within the limits."""


def dumps(thing: Any, opaque: Callable[[Any], str] | None = None, size: int = 4_000_000) -> str:
    """One line for a plain value. `opaque(value)` gives the line's part for what is not plain; without it that is Refused.

    Kept apart: None, bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, range, Decimal, Fraction,
    NumPy arrays. Subclasses and NumPy scalars become the plain value they hold.

    >>> dumps({"a": (1, 2.5)}), dumps(float("nan"))
    ('{"d":[["a",{"t":[1,2.5]}]]}', '{"f":"nan"}')
    """
    return _write(thing, opaque, [size], DEPTH)


def _write(x: Any, opaque: Callable[[Any], str] | None, left: list[int], depth: int) -> str:
    kind = type(x)
    if x is None:
        return "null"
    if kind is bool:
        return "true" if x else "false"
    if kind is int:
        text = int.__repr__(x) if -_WORD < x < _WORD else '{"i":"' + hex(x) + '"}'
    elif kind is str:
        text = encode_basestring_ascii(x)
    elif kind is float:
        text = float.__repr__(x) if x - x == 0 else '{"f":"' + float.__repr__(x) + '"}'
    elif depth == 0:
        raise Refused("nested too deeply")
    elif kind is list:
        text = "[" + _several(x, opaque, left, depth) + "]"
    elif kind is tuple:
        text = '{"t":[' + _several(x, opaque, left, depth) + "]}"
    elif kind is dict:
        pairs = [f"[{_write(k, opaque, left, depth - 1)},{_write(v, opaque, left, depth - 1)}]" for k, v in dict.items(x)]
        text = '{"d":[' + ",".join(pairs) + "]}"
    else:
        text = _write_rare(x, kind, opaque, left, depth)
    left[0] -= len(text) if kind is not list and kind is not tuple and kind is not dict else 4
    if left[0] < 0:
        raise Refused("too large")
    return text


def _several(items: Any, opaque: Callable[[Any], str] | None, left: list[int], depth: int) -> str:
    return ",".join([_write(item, opaque, left, depth - 1) for item in items])


def _write_rare(x: Any, kind: type, opaque: Callable[[Any], str] | None, left: list[int], depth: int) -> str:
    if kind is set or kind is frozenset:
        # Sorted, so that equal sets are equal text whatever the hash seed.
        items = sorted([_write(item, opaque, left, depth - 1) for item in x])
        return ('{"s":[' if kind is set else '{"z":[') + ",".join(items) + "]}"
    if kind is bytes or kind is bytearray:
        return ('{"b":"' if kind is bytes else '{"B":"') + kind.hex(x) + '"}'
    if kind is complex:
        return f'{{"c":["{float.__repr__(x.real)}","{float.__repr__(x.imag)}"]}}'
    if kind is range:
        return f'{{"r":[{_several((x.start, x.stop, x.step), opaque, left, depth)}]}}'
    for base in (int, float, complex, str, bytes, bytearray, tuple, list, dict, set, frozenset):
        if issubclass(kind, base):
            return _write(_held(x, base), opaque, left, depth)
    return _write_library(x, kind, opaque, left, depth)


def _held(x: Any, base: type) -> Any:
    """The plain value in an instance of a subclass, read by the plain type's own methods."""
    if base is int:
        return int.__index__(x)
    if base is float or base is complex:
        return base.__pos__(x)
    if base is str:
        return "".join((x, ""))  # a join of two copies
    if base is tuple:
        return tuple(tuple.__iter__(x))
    if base is list:
        return list(list.__iter__(x))
    if base is dict:
        return dict(dict.items(x))
    return base(base.__iter__(x))  # type: ignore[attr-defined]


def _write_library(x: Any, kind: type, opaque: Callable[[Any], str] | None, left: list[int], depth: int) -> str:
    module, name = kind.__module__, kind.__name__
    if module == "decimal" and name == "Decimal":
        return '{"D":' + encode_basestring_ascii(str(x)) + "}"
    if module == "fractions" and name == "Fraction":
        return f'{{"q":[{_write(x.numerator, None, left, depth - 1)},{_write(x.denominator, None, left, depth - 1)}]}}'
    numpy = sys.modules.get("numpy")
    if numpy is not None and module == "numpy":
        if isinstance(x, numpy.generic):
            plain = x.item()
            return _write(plain, opaque, left, depth - 1) if type(plain) is not kind else _opaque(x, opaque)
        if kind is numpy.ndarray and x.dtype.kind in "biufcSU":
            dtype = encode_basestring_ascii(str(x.dtype))
            return f'{{"n":[{dtype},{_write(list(x.shape), None, left, depth - 1)},{_write(x.ravel().tolist(), None, left, depth - 1)}]}}'
    return _opaque(x, opaque)


def _opaque(x: Any, opaque: Callable[[Any], str] | None) -> str:
    if opaque is None:
        raise Refused("not plain data")
    return opaque(x)


def parse(text: str | bytes, size: int = 8_000_000) -> Any:
    """The line as nested lists, scalars and one-key tags, no value built yet. Raises Refused, and nothing else, for any text."""
    if len(text) > size:
        raise Refused("too large")
    try:
        node = json.loads(text, parse_int=_int, parse_constant=_refuse)
    except (ValueError, RecursionError, MemoryError) as error:
        raise Refused(f"not a line of plain data: {error}") from None
    nodes(node)
    return node


def _int(text: str) -> int:
    if len(text) > _DIGITS:
        raise Refused("an integer of too many digits")
    return int(text)


def _refuse(text: str) -> Any:
    raise Refused(f"{text} is not plain JSON")


def nodes(node: Any) -> int:
    """How many values a parsed line holds, containers and their tags counted as one. Raises Refused beyond the limits.

    >>> nodes(parse('[1,{"t":[2,3]}]'))
    5
    """
    count, level = 0, [node]
    for _ in range(2 * DEPTH + 8):
        if not level:
            return count
        below: list[Any] = []
        for item in level:
            if type(item) is dict:
                below.extend(item.values())
            else:
                count += 1
                if type(item) is list:
                    below.extend(item)
        if count > NODES:
            raise Refused("too many values")
        level = below
    raise Refused("nested too deeply")


def loads(text: str, opaque: Callable[[Any], Any] | None = None) -> Any:
    """The value of a line. `opaque(payload)` makes what stands for an opaque value; without it that is Refused.

    >>> loads(dumps({(1, 2): {3.0, "x"}})) == {(1, 2): {3.0, "x"}}
    True
    """
    return value(parse(text), opaque)


def value(node: Any, opaque: Callable[[Any], Any] | None = None) -> Any:
    """The value of a parsed line."""
    if type(node) is list:
        return [value(item, opaque) if type(item) in (list, dict) else item for item in node]
    if type(node) is not dict:
        return node
    if len(node) != 1:
        raise Refused("a tag has one key")
    ((tag, inner),) = node.items()
    try:
        return _tagged(tag, inner, opaque)
    except Refused:
        raise
    except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError) as error:
        raise Refused(f"tag {tag!r}: {error}") from None


def _tagged(tag: str, inner: Any, opaque: Callable[[Any], Any] | None) -> Any:
    if tag in "on" and opaque is None:  # an array of a hostile dtype is large: built in jails only
        raise Refused("an opaque value" if tag == "o" else "an array")
    if tag == "o" and opaque is not None:
        return opaque(inner)
    if tag in _FROM_TEXT:
        if type(inner) is not str or (len(inner) > _BIG and tag in "iDf"):
            raise Refused("too large")
        return _FROM_TEXT[tag](inner)
    if type(inner) is not list:
        raise Refused(f"tag {tag!r} needs a list")
    if tag in _FROM_LIST:
        return _FROM_LIST[tag]([value(item, opaque) for item in inner])
    if tag == "d":
        return {value(k, opaque): value(v, opaque) for k, v in inner}
    raise Refused(f"unknown tag {tag!r}")


def _float(text: str) -> float:
    if text not in ("nan", "inf", "-inf"):
        raise Refused("a finite float is written as a number")
    return float(text)


def _decimal(text: str) -> Any:
    from decimal import Decimal

    found = Decimal(text)
    if found.is_finite() and abs(found.adjusted()) > _EXPONENT:
        raise Refused("a Decimal of too large an exponent")
    return found


def _fraction(parts: list[int]) -> Any:
    from fractions import Fraction

    if any(part.bit_length() > _EXPONENT for part in parts):
        raise Refused("a Fraction of too many digits")
    return Fraction(*parts)


def _array(parts: list[Any]) -> Any:
    import numpy

    dtype, shape, flat = parts
    return numpy.array(flat, dtype=dtype).reshape(shape)


def _complex(parts: list[str]) -> complex:
    return complex(float(parts[0]), float(parts[1]))


_FROM_TEXT: dict[str, Callable[[str], Any]] = {
    "i": lambda text: int(text, 16),
    "f": _float,
    "b": bytes.fromhex,
    "B": bytearray.fromhex,
    "D": _decimal,
}
_FROM_LIST: dict[str, Callable[[list[Any]], Any]] = {
    "t": tuple,
    "s": set,
    "z": frozenset,
    "r": lambda parts: range(*parts),
    "c": _complex,
    "q": _fraction,
    "n": _array,
}
