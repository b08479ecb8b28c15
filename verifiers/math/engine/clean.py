"""Text before it is read: damaged escapes repaired, Unicode brought to one form, delimiters and layout removed.

Nothing is parsed here, and no information a reader would use is dropped.
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ["clean", "squeezed"]

_words = str.split

_LOST = {"\t": "t", "\x08": "b", "\x0c": "f", "\r": "r", "\x07": "a", "\x0b": "v"}
"""What a program that reads `\\text` as an escape leaves of its first two characters."""
_LOST_ESCAPE = re.compile(
    r"\t(?=ext|imes|an(?![a-z])|an\b|heta|frac|o\b|riangle|au\b|ilde)|\x08(?=oxed|inom|eta|egin|ar\b|ig)|\x0c(?=rac|box|lat)"
    r"|\r(?=ight|ho\b|angle|m\b|ceil|floor)|\x07(?=lpha|ngle|pprox|rc)|\x0b(?=ec\b|arphi|ert|ee\b|arnothing)"
)
_DOUBLED = re.compile(r"\\\\(?=[a-zA-Z$%{}])")
_DOUBLED_COMMAND = re.compile(
    r"\\\\(?=(?:[dt]?frac|text|sqrt|left|right|pi|cdot|times|circ|pm|mp|infty|cup|cap|leq?|geq?)(?![a-z])"
    r"|(?:boxed|begin|end|in|sin|cos|tan|log|ln)(?![a-z]))"
)
_LITERAL_BREAK = re.compile(r"\\[nrt](?=\\|\s|$|[^a-zA-Z])")
_HTML = {"sup": "^", "sub": "_"}
_HTML_SCRIPT = re.compile(r"<(sup|sub)>([^<>]{0,200})</\1>")
_LAYOUT = re.compile(
    r"\\(?:left|right|[bB]igg?[lrm]?|middle)(?![a-zA-Z])\s*\.?(?=$|[^.])"
    r"|\\(?:displaystyle|textstyle|scriptstyle|limits|nolimits|hfill|bf|rm|it)(?![a-zA-Z])"
    r"|\\[hv]space\*?\{[^{}]{0,20}\}|\\textcolor\{[^{}]{0,20}\}|\\(?:phantom|label|tag)\{[^{}]{0,80}\}|\\(?:begin|end)\{(?:equation|center)\*?\}"
)
_SYSTEM = re.compile(
    r"\\left\s*\\\{\s*\\begin\{(array|aligned|matrix|gathered|split)\}(?:\{[^{}]{0,20}\})?(.{0,2000}?)\\end\{\1\}\s*\\right\s*\.", re.DOTALL
)
"""A brace before rows, which is a system."""
_BARS = re.compile(r"\\(left|right|[bB]igg?[lr])\s*(?:\||\\vert(?![a-zA-Z])|\\mid(?![a-zA-Z]))")
_DELIMITERS = re.compile(r"(?<!\\)(?:\\[()\[\]]|\$)")
_ENDINGS = " \t\n\r.,;:^\\"
_OPEN_BOX = re.compile(r"^[\s\\]*(?:boxed|fbox)\s*\{")
_HALF_DAY = re.compile(r"\b([apAP])\.\s?[mM]\b\.?")
_CLOCK = re.compile(r"(:\d\d\s{0,3}|\d\s{1,3}|\d\s{0,3}\\(?:text|mathrm)\s?\{\s{0,3})([AP])M\b")
_BARE_FONT = re.compile(r"\\(math(?:bf|rm|it|sf))\s+([A-Za-z])(?![A-Za-z])")
_PRIMES = re.compile(r"\^\s?(?:\{\s?\\prime\s?\}|\\prime(?![a-zA-Z]))")
_ONE_BOX = re.compile(r"[\s$]*\\(?:boxed|fbox)\s*\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}[\s$.]*")
"""A text that is one box, with groups two deep; deeper ones are read by the parser."""
_MODULE = re.compile(r"(?<![a-zA-Z\\])(?:np|numpy|math)\.(?=[a-z])")
_ORDINAL = re.compile(r"(?<=\d)(?:(?:st|nd|rd|th)(?![a-zA-Z])|\^\s?\{?\\(?:text|mathrm)\s?\{(?:st|nd|rd|th)\}\}?|\^\{(?:st|nd|rd|th)\})")
"""7th, 7^{th}, 7^{\\text{th}}; `7\\text{th}` is read as a unit."""
_STRAY_DOT = re.compile(r"(?<=[^\d\s.])\.(?=[\])])")
_UNICODE = str.maketrans(
    {
        **dict.fromkeys("−–—‒﹣－", "-"), **dict.fromkeys("×✕⨯", "*"), **dict.fromkeys("·⋅∙•", "*"), "÷": "/", "∕": "/", "⁄": "/",
        "≤": " \\le ", "⩽": " \\le ", "≥": " \\ge ", "⩾": " \\ge ", "≠": " \\ne ", "≈": " \\approx ", "∞": " \\infty ", "∪": " \\cup ",
        "∩": " \\cap ", "∈": " \\in ", "∉": " \\notin ", "∅": " \\emptyset ", "√": " \\sqrt ", "°": "^\\circ ", "′": "'", "’": "'",
        "″": "''",
        "±": " \\pm ", "∓": " \\mp ", "∠": " \\angle ", "△": " \\triangle ", "∀": " \\forall ", "ℝ": " \\mathbb{R} ", "ℤ": " \\mathbb{Z} ",
        "ℕ": " \\mathbb{N} ", "ℚ": " \\mathbb{Q} ", "→": " \\to ", "⇒": " \\Rightarrow ", "∖": " \\setminus ", "…": " \\dots ",
        "⋯": " \\dots ",
        "∑": " \\sum ", "∏": " \\prod ", "∫": " \\int ", "⌊": " \\lfloor ", "⌋": " \\rfloor ", "⌈": " \\lceil ", "⌉": " \\rceil ",
        "，": ", ", "、": ", ", "；": "; ", "：": ":", "（": "(", "）": ")", "【": "[", "】": "]", "＜": "<", "＞": ">",
        "％": "%", "。": ".",
        "∨": " or ", "∧": " and ", "“": " ", "”": " ", "¬": " \\neg ", "£": " \\pounds ", "€": " \\euro ", "¥": " \\yen ",
        "¢": " cents ", "∛": " \\sqrt[3] ", "∼": " \\sim ", "⟨": " \\langle ", "⟩": " \\rangle ", "∣": "|", "\u200b": "", "\u200c": "",
        "\u200d": "", "\u2060": "",
        **dict.fromkeys("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufe0e\ufe0f", ""),
        "\ufeff": "", "\u2009": "\\,", "\u202f": "\\,", "\u00a0": " ", "\u2063": "", "\u2061": "", "\u2062": "",
    }
)  # fmt: skip
_GREEK = dict(
    zip(
        "αβγδεζηθικλμνξπρσςτυφχψωΓΔΘΛΞΠΣΦΨΩϕϵϑ",
        _words(
            "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma sigma tau upsilon phi chi psi omega "
            "Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega phi epsilon theta"
        ),
        strict=True,
    )
)
_GREEK_TABLE = str.maketrans({letter: f" \\{name} " for letter, name in _GREEK.items()})
_RAISED = {**dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789", strict=True)), "⁺": "+", "⁻": "-", "ⁿ": "n", "ⁱ": "i", "⁽": "(", "⁾": ")"}
_LOWERED = {**dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True)), "₊": "+", "₋": "-", "ₙ": "n", "ᵢ": "i"}
_RAISED_RUN = re.compile(f"[{''.join(_RAISED)}]+")
_LOWERED_RUN = re.compile(f"[{''.join(_LOWERED)}]+")
_CIRCLED_RUN = re.compile("[\u2460-\u2468][\u2460-\u2468,、 ]*")


def _unicode(text: str) -> str:
    text = _RAISED_RUN.sub(lambda run: "^{" + "".join(_RAISED[c] for c in run[0]) + "}", text)
    text = _LOWERED_RUN.sub(lambda run: "_{" + "".join(_LOWERED[c] for c in run[0]) + "}", text)
    text = _CIRCLED_RUN.sub(lambda run: ", ".join(str(ord(c) - 0x245F) for c in run[0] if c > "\u2400"), text)
    text = text.translate(_UNICODE)
    return text if text.isascii() else unicodedata.normalize("NFKC", text).translate(_UNICODE).translate(_GREEK_TABLE)


def _bar(found: re.Match[str]) -> str:
    return " \\lvert " if found[1][0] == "l" or found[1].endswith("l") else " \\rvert "


def clean(text: str) -> str:
    """The text as the lexer reads it.

    >>> clean("$\\\\left(\\t" + "ext{east}, x²≤4\\\\right)$.")
    '(\\\\text{east}, x^{2} \\\\le 4)'
    """
    if not text.isascii():
        text = _unicode(text)
    if not text.isprintable():
        text = _LOST_ESCAPE.sub(lambda lost: "\\" + _LOST[lost[0]], text)
    if "\\" in text:
        if "\\\\" in text:
            text = (_DOUBLED_COMMAND if "\\begin" in text or "\\\\begin" in text else _DOUBLED).sub(r"\\", text)
        text = _LITERAL_BREAK.sub(" ", text)
        if (box := _ONE_BOX.fullmatch(text)) is not None:
            text = box[1]
        if "\\begin" in text:
            text = _SYSTEM.sub(r"\\begin{cases}\2\\end{cases}", text)
        text = _BARS.sub(_bar, text)
        text = _LAYOUT.sub(lambda layout: " " if layout[0][1] in "hvp" else "", text)  # 1\\hspace{1em}5 is not 15
        if "\\math" in text:
            text = _BARE_FONT.sub(r"\\\1{\2}", text)
        if "boxed" in text and text.count("{") > text.count("}"):
            text = _OPEN_BOX.sub("", text)
    if "np." in text or "math." in text or "numpy." in text:
        text = _MODULE.sub("", text)
    if ".m" in text or ". m" in text or "M" in text:
        text = _CLOCK.sub(lambda clock: f"{clock[1]}{clock[2].lower()}m", _HALF_DAY.sub(lambda half: half[1].lower() + "m", text))
    if "\\prime" in text:
        text = _PRIMES.sub("'", text)
    if "</s" in text:
        text = _HTML_SCRIPT.sub(lambda script: f"{_HTML[script[1]]}{{{script[2]}}}", text)
    if "$" in text or "\\" in text:
        text = _DELIMITERS.sub(" ", text)
    text = _STRAY_DOT.sub("", _ORDINAL.sub("", text.strip())).rstrip(_ENDINGS)
    return text.strip("*_ ") if text.startswith(("*", "_")) and text.endswith(("*", "_")) else text


_NOISE = re.compile(
    r"\\(?:text|mbox|mathrm|textbf|mathbf)\s*\{([^{}]{0,400})\}|\\!|(?<!\d)\\[,;: ]|\\[,;: ](?!\d)"
    r"|\\(?:boxed|fbox)(?=\{)|(?<![\d}\s])\s++|(?<!\s)\s++(?!\d)"
)
_EDGE = re.compile(r"^\s*\d|\d\s*$")
"""A number that would run into another one, were the wrapper just taken off."""
_SPACE = re.compile(r"(?<![\d\s])\s++|(?<!\s)\s++(?!\d)")
"""Spaces, but those between two digits; `1  2` is not 12."""
_SAME = (
    (r"\dfrac", r"\frac"),
    (r"\tfrac", r"\frac"),
    (r"\leq", r"\le"),
    (r"\geq", r"\ge"),
    (r"\leslant", r"\le"),
    (r"\geslant", r"\ge"),
    (r"\neq", r"\ne"),
)


def squeezed(cleaned: str) -> str:
    """The cleaned text without spaces and text wrappers: equal squeezed texts say the same thing.

    >>> squeezed("\\\\text{ odd }"), squeezed("x ^ 2")
    ('odd', 'x^2')
    """
    if "\\" not in cleaned:
        return _SPACE.sub("", cleaned)
    for form, name in _SAME:
        cleaned = cleaned.replace(form, name)
    return _NOISE.sub(_unwrapped, cleaned)


def _unwrapped(noise: re.Match[str]) -> str:
    content = noise[1] or ""
    return f"{{{content}}}" if _EDGE.search(content) else _SPACE.sub("", content)
