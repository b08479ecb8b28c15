"""Identities modulo large primes: without expanding, without building large numbers, and with proof rather than digits.

Expressions made of + - * / and integer powers, factorials, binomials, i, square roots of rational numbers, pi and e are evaluated at
pseudo-random points of a prime field in which -1 and every small prime have square roots; pi and e are variables there (pi is
transcendental, so two expressions in it are equal only as functions). Different values prove expressions different. Equal values at three
primes near 2^61 mean equality but for a chance under degree / 2^61 each time (Schwartz, Zippel); the points are fixed, so that a pair
always gets the same answer.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from zlib import crc32

from guerdon.verifiers.math.engine.exact import exact
from guerdon.verifiers.math.engine.limits import Undefined
from guerdon.verifiers.math.engine.nodes import Node, num, walk

__all__ = ["identical", "is_light", "is_rational"]

_SMALL_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47)
_PRIMES = (2305843008446697721, 2305843007899190761, 2305843007664356161)
"""Found by search, once: -1 and every small prime is a square modulo each."""
_FACTORIAL_CAP = 20_000
"""For all arguments of one expression together: 3 ms."""
_LIGHT = 160
"""The primes have 183 bits together, and so has, at least, what is written to vanish modulo all of them."""
_KINDS = frozenset(("num", "dec", "sym", "const", "add", "mul", "div", "neg", "pow", "fn", "percent", "root"))
_TWO = num(2)


class _GiveUp(Exception):
    pass


def is_rational(node: Node) -> bool:
    """Whether the whole tree may be in reach of this module."""
    work = Fraction(0)
    for n in walk(node):
        if n.kind not in _KINDS:
            return False
        if n.kind == "fn":
            if n.value not in ("factorial", "binom") or any(arg.kind != "num" for arg in n.args):
                return False
            work += n.args[0].value
            if work > _FACTORIAL_CAP:
                return False
        elif n.kind == "pow":
            if not _is_integer(n.args[1]) and not _is_half(n.args[1]):
                return False
        elif (n.kind == "root" and n.args[1] != _TWO) or (n.kind == "const" and n.value == "inf"):
            return False
    return True


def is_light(a: Node, b: Node) -> bool:
    """Whether too little is written in two trees (bits of their literals, and their nodes) for a multiple of the primes to be built."""
    bits = 0
    for side in (a, b):
        for n in walk(side):
            value = n.value if n.kind == "num" else n.value[0] if n.kind == "dec" else Fraction(0)
            bits += 1 + value.numerator.bit_length() + value.denominator.bit_length()
    return bits < _LIGHT


def _is_integer(node: Node) -> bool:
    if node.kind == "num":
        return bool(node.value.denominator == 1)
    return node.kind in ("neg", "add", "mul", "pow") and all(_is_integer(arg) for arg in node.args)


def _is_half(node: Node) -> bool:
    if node.kind == "neg":
        return _is_half(node.args[0])
    return node.kind == "div" and node.args[1] == _TWO and _is_integer(node.args[0])


@lru_cache(maxsize=512)
def _point(name: str, prime: int) -> int:
    return (crc32(name.encode("utf-8", "replace")) * 0x9E3779B97F4A7C15 + prime // 3) % prime


def _value(node: Node, prime: int) -> int:
    kind, args = node.kind, node.args
    if kind == "num":
        return _fraction(node.value, prime)
    if kind == "sym":
        return _point(node.value, prime)
    if kind == "dec":
        return _fraction(node.value[0], prime)
    if kind == "const":
        return _square_root(-1, prime) if node.value == "i" else _point(f"constant {node.value}", prime)
    if kind == "add":
        return sum(_value(arg, prime) for arg in args) % prime
    if kind == "mul":
        product = 1
        for arg in args:
            product = product * _value(arg, prime) % prime
        return product
    if kind == "neg":
        return -_value(args[0], prime) % prime
    if kind == "div":
        return _value(args[0], prime) * _inverse(_value(args[1], prime), prime) % prime
    if kind == "percent":
        return _value(args[0], prime) * _inverse(100, prime) % prime
    if kind == "pow":
        return _power(args[0], args[1], prime)
    return _root_of(args[0], prime) if kind == "root" else _combinatorial(node, prime)


def _fraction(value: Fraction, prime: int) -> int:
    if value.denominator == 1:
        return value.numerator % prime
    return value.numerator * _inverse(value.denominator, prime) % prime


def _inverse(value: int, prime: int) -> int:
    if value % prime == 0:
        raise _GiveUp
    return pow(value, -1, prime)


def _root_of(node: Node, prime: int) -> int:
    """The square root of a rational number: the product of the chosen roots of its primes (another choice conjugates both sides)."""
    try:
        value = exact(node)
    except Undefined:
        value = None
    if value is None or value.numerator.bit_length() + value.denominator.bit_length() > 512:
        raise _GiveUp
    rest, root = abs(value.numerator) * value.denominator, _inverse(value.denominator, prime)
    if value < 0:
        root = root * _square_root(-1, prime) % prime
    for small in _SMALL_PRIMES:
        while rest and rest % small == 0:
            rest //= small
            root = root * _square_root(small, prime) % prime
    whole = math.isqrt(rest)
    if whole * whole != rest:
        raise _GiveUp
    return root * whole % prime


@lru_cache(maxsize=64)
def _square_root(value: int, prime: int) -> int:
    """A square root modulo the prime (Tonelli, Shanks)."""
    odd, twos = prime - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    other = next(n for n in range(2, 10_000) if pow(n, (prime - 1) // 2, prime) == prime - 1)
    step, root, rest = pow(other, odd, prime), pow(value, (odd + 1) // 2, prime), pow(value, odd, prime)
    while rest != 1:
        order, square = 0, rest
        while square != 1:
            square, order = square * square % prime, order + 1
        factor = pow(step, 1 << (twos - order - 1), prime)
        root, step = root * factor % prime, factor * factor % prime
        rest, twos = rest * step % prime, order
    return root


def _power(base: Node, exponent: Node, prime: int) -> int:
    """By Fermat the exponent counts modulo prime - 1, so that towers are no larger than their trees."""
    if exponent.kind == "neg" and exponent.args[0].kind == "div":
        return _inverse(_power(base, exponent.args[0], prime), prime)
    if exponent.kind == "div":
        value, exponent = _root_of(base, prime), exponent.args[0]
    else:
        value = _value(base, prime)
    if value == 0:
        raise _GiveUp  # 0^0, 0^-1: not this module's business
    return pow(value, _residue(exponent, prime - 1), prime)


def _residue(node: Node, modulus: int) -> int:
    """An integer expression modulo any number."""
    kind, args = node.kind, node.args
    if kind == "num":
        return int(node.value.numerator % modulus)
    if kind == "neg":
        return -_residue(args[0], modulus) % modulus
    if kind == "add":
        return sum(_residue(arg, modulus) for arg in args) % modulus
    if kind == "mul":
        product = 1
        for arg in args:
            product = product * _residue(arg, modulus) % modulus
        return product
    if kind == "pow":
        return pow(_residue(args[0], modulus), _small_integer(args[1]), modulus)
    raise _GiveUp


def _small_integer(node: Node) -> int:
    """An exponent of an exponent: itself, if it is small enough to be built."""
    kind, args = node.kind, node.args
    if kind == "num" and node.value >= 0:
        return int(node.value)
    if kind == "pow" and all(arg.kind == "num" for arg in args):
        base, exponent = int(args[0].value), int(args[1].value)
        if exponent >= 0 and exponent * base.bit_length() < 2_000:
            return int(base**exponent)
    raise _GiveUp


def _combinatorial(node: Node, prime: int) -> int:
    arguments = []
    for arg in node.args:
        if arg.value.denominator != 1 or not 0 <= arg.value <= _FACTORIAL_CAP:
            raise _GiveUp
        arguments.append(int(arg.value))
    if node.value == "factorial":
        return _factorial(arguments[0], prime)
    n, k = arguments
    if k > n:
        return 0
    return _factorial(n, prime) * _inverse(_factorial(k, prime) * _factorial(n - k, prime), prime) % prime


@lru_cache(maxsize=64)
def _factorial(n: int, prime: int) -> int:
    product = 1
    for k in range(2, n + 1):
        product = product * k % prime
    return product


def _has_both(a: Node, b: Node) -> bool:
    """Whether pi and e both occur: nobody knows whether they are independent."""
    return len({n.value for side in (a, b) for n in walk(side) if n.kind == "const" and n.value != "i"}) > 1


def identical(a: Node, b: Node) -> bool | None:
    """Whether two expressions are the same function; None when a value is out of reach.

    >>> from guerdon.verifiers.math.engine.reading import read
    >>> identical(read("(x+y)^{50}"), read("(y+x)^{25}(x+y)^{25}")), identical(read("\\\\frac{1}{2004!}"), read("\\\\frac{1}{2006!}"))
    (True, False)
    >>> identical(read("(\\\\sqrt2-1)(\\\\sqrt2+1)"), read("1")), identical(read("\\\\frac{1}{i}"), read("-i"))
    (True, True)
    """
    try:
        for prime in _PRIMES:
            if _value(a, prime) != _value(b, prime):
                return None if _has_both(a, b) else False
    except (_GiveUp, OverflowError):
        return None
    return True
