"""The words that may stand beside a number, and the characters and commands that have a plainer synonym. Data only."""

from __future__ import annotations

import re

__all__ = ["ALIASES", "CHARACTERS", "EMPTY", "FUNCTIONS", "MEASURES", "NOT_UNITS", "REWRITES", "SCALES", "SHORT_UNITS"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTIONS = _words("sin cos tan cot sec csc sqrt exp log abs arcsin arccos arctan sinh cosh tanh min max gcd lcm mod det and inf")

# Words that take the number back or change it: "5 or 6", "5 is not it", "5 squared" do not say 5.
NOT_UNITS = _words(
    """or and not no any is isnt are was were be other otherwise either neither nor but if maybe perhaps than to at least most about
    approximately zero one two three four five six seven eight nine ten half third quarter point wrong incorrect false true squared
    cubed factorial pi infinity plus minus over under times because since so mod unless instead except"""
)
SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12, "dozen": 12}
SHORT_UNITS = _words("m s g h l L km cm mm kg mg ml mL ft in yd mi lb oz hr min mph kmh kph sq cu pm am th nd rd st")
ALIASES = {
    **{"meter": "m", "metre": "m", "kilometer": "km", "kilometre": "km", "centimeter": "cm", "centimetre": "cm", "millimeter": "mm"},
    **{"hour": "h", "hr": "h", "minute": "min", "second": "s", "sec": "s", "gram": "g", "kilogram": "kg", "feet": "ft", "foot": "ft"},
    **{"inch": "in", "inche": "in", "mile": "mi", "pound": "lb", "ounce": "oz", "liter": "l", "litre": "l", "yard": "yd", "usd": "dollar"},
    **{"mph": "mi h", "kmh": "km h", "kph": "km h", "per": ""},
}
MEASURES = _words("m km cm mm kg g mg l ml ft in yd mi lb oz s min h dollar cent day week month year")
EMPTY = _words(r"nosolution nosolutions emptyset theemptyset \emptyset \{\}")

CHARACTERS = str.maketrans(
    {
        **{char: f"^{{{digit}}}" for digit, char in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
        **{"½": "\\frac{1}{2}", "⅓": "\\frac{1}{3}", "⅔": "\\frac{2}{3}", "¼": "\\frac{1}{4}", "¾": "\\frac{3}{4}"},
        **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad\x00$€£¥₹`°", ""),
        **dict.fromkeys("−–‐‑", "-"),
        **{"×": "*", "·": "*", "⋅": "*", "∙": "*", "÷": "/", "π": "\\pi ", "∞": "\\infty ", "∅": "\\emptyset ", "±": "\\pm "},
        **{"≤": "\\le ", "≥": "\\ge ", "≠": "\\ne ", "≈": "\\approx ", "∪": "\\cup ", "∈": "\\in ", "√": "\\sqrt "},
    }
)
# Every pattern is linear: no two neighbouring parts can match the same text, or their lengths are bounded.
REWRITES = [
    (re.compile(pattern), new)
    for pattern, new in [
        (r"\\\\(?=[a-zA-Z])", r"\\"),  # doubled escapes; left out where \\ ends the rows of a matrix
        (r"\\(?:boxed|fbox|displaystyle|limits|left|right|[bB]igg?[lrm]?)(?![a-zA-Z])|\\\$|(?<!\\)\\[\[\]()]|\\[,!] ?", ""),
        (r"\\[;: \n]|~|\\q?quad(?![a-zA-Z])|\\\\$", " "),
        (r"\\[dtc]frac(?![a-zA-Z])", r"\\frac"),
        (r"\\(?:text|math|operatorname|mbox|hbox)(?:rm|bf|it|sf|normal)?\s{0,4}\{([^{}]*)\}", r" \1 "),
        (r"\{\s?,\s?\}", ","),
        (r"\\%", "%"),
        (r"\^\s?(?:\{\s?\\circ\s?\}|\\circ(?![a-zA-Z]))|\\degrees?(?![a-zA-Z])", ""),
        (r"\\(?:times|cdot|ast)(?![a-zA-Z])", "*"),
        (r"\\div(?![a-zA-Z])", "/"),
        (r"\\(?:leqslant|leq|le)(?![a-zA-Z])|<=", r"\\le "),
        (r"\\(?:geqslant|geq|ge)(?![a-zA-Z])|>=", r"\\ge "),
        (r"\\(?:neq|ne)(?![a-zA-Z])|!=", r"\\ne "),
        (r"\\lt(?![a-zA-Z])", "<"),
        (r"\\gt(?![a-zA-Z])", ">"),
        (r"\\(?:simeq|approx|thickapprox)(?![a-zA-Z])", r"\\approx "),
        (r"\\varnothing(?![a-zA-Z])", r"\\emptyset "),
        (r"\\lbrace(?![a-zA-Z])", r"\\{"),
        (r"\\rbrace(?![a-zA-Z])", r"\\}"),
        (r"\\frac\s?([0-9a-z])\s?([0-9a-z])", r"\\frac{\1}{\2}"),
        (r"\\frac\s?\{([^{}]*)\}\s?([0-9a-z])", r"\\frac{\1}{\2}"),
        (r"\\sqrt\s?([0-9a-z])", r"\\sqrt{\1}"),
        (r"\s+", " "),
        (r"\{ ", "{"),
        (r" \}", "}"),
    ]
]
