"""The caps that bound every call, and the two ways of giving up. Nothing here needs a timer.

Measured on one core: an input at all caps at once is parsed in under 20 ms and compared in under 60 ms.
"""

from __future__ import annotations

__all__ = [
    "MAX_BITS",
    "MAX_BOUNDS",
    "MAX_CHARS",
    "MAX_DEPTH",
    "MAX_DIGITS",
    "MAX_FACTORIAL",
    "MAX_ITEMS",
    "MAX_PRECISION",
    "MAX_TOKENS",
    "MAX_WORK",
    "TooLarge",
    "Undefined",
    "Unreadable",
]

MAX_CHARS = 6_000
"""Characters of an answer; longer ones are compared as text only."""
MAX_TOKENS = 900
MAX_DEPTH = 32
"""Nested groups; about eight Python frames each, so that a caller's own stack has room."""
MAX_DIGITS = 1_500
"""Digits of one literal; above 4,300 Python itself refuses."""
MAX_ITEMS = 64
"""Members of a list, set or union that are compared one by one."""
MAX_BITS = 6_000
"""Bits of an exact value: a common divisor takes 50 us. Larger numbers are compared modulo primes and by magnitude."""
MAX_FACTORIAL = 500
"""Of an exact value: 500! has 3,767 bits."""
MAX_BOUNDS = 24
"""Inequalities in one answer."""
MAX_PRECISION = 6_000
"""Bits of the last numeric evaluation."""
MAX_WORK = 600_000
"""Nodes times bits of one numeric evaluation: 60 ms."""


class TooLarge(Exception):
    """A cap was reached: the text is refused, or a value is left to another stage."""


class Unreadable(Exception):
    """The text is not an expression of this grammar."""


class Undefined(Exception):
    """The value does not exist: a division by zero, a logarithm of zero."""
