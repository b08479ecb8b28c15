"""Units: which words are one, and how one measures another."""

from __future__ import annotations

import re
from fractions import Fraction

__all__ = ["NOUNS", "UNITS", "canonical_unit", "is_unit_word"]

_words = str.split

_TABLE = """
length: m meter metre | 1; cm centimeter centimetre | 1/100; mm millimeter millimetre | 1/1000
length: km kilometer kilometre | 1000; dm decimeter decimetre | 1/10; nm nanometer | 1/1000000000
length: micrometer micron | 1/1000000; angstrom | 1/10000000000
imperial: in inch inche | 1; ft foot feet | 12; yd yard | 36; mi mile | 63360
morning: am | 1
afternoon: pm | 1
mass: g gm gram gramme | 1; kg kilogram kilo | 1000; mg milligram | 1/1000
mass: ton tonne | 1000000; lb pound | 45359237/100000; oz ounce | 45359237/1600000
time: s sec second | 1; min minute | 60; h hr hour | 3600; day | 86400; week | 604800; ms millisecond | 1/1000
months: month | 1; year yr | 12
volume: L liter litre | 1; ml milliliter millilitre | 1/1000; gallon gal | 3785411784/1000000000
money: $ dollar usd buck | 1; cent ¢ | 1/100
yuan: yuan rmb | 1
euro: € euro eur | 1
pound: £ gbp | 1
rupee: rs rupee ₹ | 1
yen: ¥ yen | 1
speed: mph kph kmh | 1
force: N newton | 1; kN | 1000; dyne | 1/100000
energy: J joule | 1; kJ kilojoule | 1000; erg | 1/10000000
particle: eV electronvolt | 1; keV | 1000; MeV | 1000000; GeV | 1000000000
power: W watt | 1; kW kilowatt | 1000
voltage: V volt | 1
current: A ampere amp | 1
frequency: Hz hertz | 1; kHz | 1000; MHz | 1000000; GHz | 1000000000
amount: mol mole | 1
temperature: K kelvin | 1
celsius: celsius °C | 1
fahrenheit: fahrenheit °F | 1
angle: radian rad | 1
resistance: ohm | 1
pressure: Pa pascal | 1; kPa | 1000; MPa | 1000000; atm | 101325
distance: parsec | 1; kpc | 1000; Mpc | 1000000
charge: coulomb | 1
field: tesla | 1
data: byte | 1; bit | 1/8
"""


def _read(table: str) -> dict[str, tuple[str, Fraction]]:
    units: dict[str, tuple[str, Fraction]] = {}
    for line in table.strip().splitlines():
        dimension, _, entries = line.partition(": ")
        for entry in entries.split("; "):
            names, _, factor = entry.partition(" | ")
            units.update({name: (dimension, Fraction(factor)) for name in names.split()})
    return units


UNITS: dict[str, tuple[str, Fraction]] = _read(_TABLE)
"""Spelling (singular) to dimension and size."""

NOUNS = frozenset(
    _words(
        "people persons children men women ways way units unit square sq cubic cu squared cubed per times time students fish sheep "
        "pieces point o'clock dollars years old more left total inches feet mice geese dozen percent votes digits sides cards games "
        "cup cups tablespoon teaspoon slice pizza pie cake apple orange item page book coin ball"
    )
)
_COUNTS = frozenset(
    _words("halves thirds fourths fifths sixths eighths tenths hundredths thousandths hundreds thousands millions billions")
)
"""They change the number: 5 tenths are not 5."""
_SPEEDS = {"mph": "mi / h", "kph": "km / h", "kmh": "km / h"}
"""The table only makes them words."""
_POWER_WORDS = {"square": 2, "sq": 2, "squared": 2, "cubic": 3, "cu": 3, "cubed": 3}
_WORD = re.compile(r"[A-Za-z$€£¥₹¢°']+")
_PARTS = re.compile(r"([A-Za-z$€£¥₹¢°'.]+)|\^?\{?(-?\d)\}?|(/)")


def _singular(word: str) -> str | None:
    for form in (word, word.lower(), word.removesuffix("s"), word.lower().removesuffix("s"), word.lower().removesuffix("es")):
        if form in UNITS:
            return form
    return None


def is_unit_word(word: str) -> bool:
    """Whether the word can stand in a unit: in the table, a counting noun, or shaped like a plural."""
    return (
        _singular(word) is not None
        or word.lower() in NOUNS
        or (len(word) > 3 and word.isalpha() and word.endswith("s") and not word.endswith("ss") and word.lower() not in _COUNTS)
    )


def canonical_unit(phrase: str) -> tuple[tuple[tuple[str, int], ...], Fraction]:
    """The dimensions of a unit phrase and its size; a noun that is no unit of measure has neither and conflicts with nothing.

    >>> canonical_unit("cm ^ 2") == canonical_unit("square centimeters") != canonical_unit("cm")
    True
    >>> canonical_unit("mph") == canonical_unit("miles per hour")
    True
    >>> canonical_unit("apples")
    ((), Fraction(1, 1))
    """
    phrase = _SPEEDS.get(phrase.lower(), phrase)
    powers: dict[str, int] = {}
    size, sign, pending, last = Fraction(1), 1, 1, None
    for word, power, slash in _PARTS.findall(phrase):
        if slash or word == "per":
            sign = -1
        elif word.lower() in ("square", "sq", "cubic", "cu"):
            pending = _POWER_WORDS[word.lower()]
        elif power or word.lower() in _POWER_WORDS:
            if last is not None:
                dimension, factor, already = last
                extra = (int(power) if power else _POWER_WORDS[word.lower()]) * sign - already
                powers[dimension] += extra
                size *= factor**extra
        elif (name := _singular(word.replace(".", ""))) is not None:
            dimension, factor = UNITS[name]
            powers[dimension] = powers.get(dimension, 0) + sign * pending
            size *= factor ** (sign * pending)
            last, pending = (dimension, factor, sign * pending), 1
    return tuple(sorted((d, p) for d, p in powers.items() if p)), size
