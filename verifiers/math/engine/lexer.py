"""Cleaned text to tokens: LaTeX and plain text in one pass.

A token is a pair (kind, text). Kinds: num rep sym const fn lazy word op rel setop pm open close bar cmd prime degree cur dots gap empty.
Digits grouped by commas are one number at the top level (`1,234`) and several members inside brackets (`(312,123,231)`);
`flip=True` gives the other reading.
"""

from __future__ import annotations

import re
from functools import lru_cache

from guerdon.verifiers.math.engine.limits import MAX_DIGITS, MAX_TOKENS, TooLarge, Unreadable
from guerdon.verifiers.math.engine.tables import COMMANDS, CONNECTORS, FILLERS, FUNCTIONS, HEDGES, LAZY, QUALIFIERS, STRUCTURAL, WORD_VALUES
from guerdon.verifiers.math.engine.units import NOUNS, UNITS

__all__ = ["GROUPED", "Token", "tokens"]

Token = tuple[str, str]

_FRACTION = r"(?:\.\d+)?(?:[eE][+-]?\d{1,6}(?![a-zA-Z0-9]))?"
_TOKEN = re.compile(
    r"(?P<ws>\s+|\\[ ,;:!>/]|~)"
    r"|(?P<rep>\d*\.\d*\\(?:overline|bar|dot)\s*\{?\d+\}?)"
    rf"|(?P<num>(?:[1-9]\d{{0,2}}(?:(?:,(?:\\!\s?)?|\{{,\}}|\\,|\\ |\\;|\\!|\ )\d{{3}})+(?!\d)|\d+){_FRACTION}|\.\d+(?:[eE][+-]?\d+)?)"
    r"|\\(?P<text>text[a-z]*|math(?:rm|bf|it|sf|op|cal|scr)|[mh]box|operatorname|emph|bold(?:symbol)?|bm)\*?\s*\{"
    r"|\\(?P<cmd>[a-zA-Z]+\*?|.)"
    r"|(?P<run>[A-Za-z]+(?:'[a-z]+)?)"
    r"|(?P<rel><=|>=|!=|==|=|<|>)"
    r"|(?P<op>\*\*|\.\.\.+|.)",
    re.DOTALL,
)
_SINGLE = re.compile(rf"\d+{_FRACTION}")
GROUPED = re.compile(r"(?<![\d.])[1-9]\d{0,2}(?:,(?:\\!\s?)?|\{,\})\d{3}(?!\d)")
"""A number whose commas can be read in two ways."""
_RELATIONS = {"==": "=", "<=": "<=", ">=": ">=", "!=": "!=", "=": "=", "<": "<", ">": ">"}
_GLUED = re.compile(r"(or|and)([A-Z]?[a-z]?)$")
_VOWEL = re.compile(r"[aeiouy]")
_KNOWN = frozenset(CONNECTORS) | FILLERS | QUALIFIERS | HEDGES | frozenset(NOUNS)
_SHORT_WORDS = _KNOWN - {"a", "i.e"}


class _Lexer:
    def __init__(self, text: str, flip: bool) -> None:
        self.text, self.flip = text, flip
        self.out: list[Token] = []
        self.depth = 0

    def run(self, start: int, end: int, prose: bool) -> None:
        """Append the tokens of a stretch; `prose` reads letters as words."""
        text, out = self.text, self.out
        while start < end:
            if len(out) > MAX_TOKENS:
                raise TooLarge
            match = _TOKEN.match(text, start, end)
            if match is None:
                raise Unreadable
            kind, start = match.lastgroup, match.end()
            if kind == "ws":
                continue
            if kind == "text":
                start = self.text_group(start, end, match["text"])
            elif kind == "run":
                self.letters(match["run"], prose)
            elif kind == "num":
                start = self.number(match, start)
            elif kind == "cmd":
                start = self.command(match["cmd"], start)
            elif kind == "rel":
                out.append(("rel", _RELATIONS[match["rel"]]))
            elif kind == "rep":
                out.append(("rep", match["rep"]))
            else:
                self.operator(match[0])

    def number(self, match: re.Match[str], end: int) -> int:
        literal = match[0]
        if "," in literal and (self.depth > 0) != self.flip:
            first = _SINGLE.match(self.text, match.start())
            if first is None:
                raise Unreadable
            literal, end = first[0], first.end()
        if len(literal) > MAX_DIGITS:
            raise TooLarge
        if not literal.isdigit():
            literal = re.sub(r"[^0-9.eE+-]", "", literal)
        self.out.append(("num", literal))
        return end

    def operator(self, mark: str) -> None:
        if mark in "([":
            self.depth += 1
            self.out.append(("open", mark))
        elif mark in ")]":
            self.depth -= 1
            self.out.append(("close", mark))
        elif mark == "{":
            self.out.append(("open", mark))
        elif mark == "}":
            self.out.append(("close", mark))
        elif mark == "|":
            self.out.append(("bar", mark))
        elif mark == "'":
            self.out.append(("prime", mark))
        elif mark.startswith("..."):
            self.out.append(("dots", ""))
        else:
            self.out.append(("op", "^" if mark == "**" else mark))

    def command(self, name: str, end: int) -> int:
        known = COMMANDS.get(name)
        if known is not None:
            self.out.append(known)
        elif name in ("{", "}"):
            self.depth += 1 if name == "{" else -1
            self.out.append(("open" if name == "{" else "close", "\\" + name))
        elif name in ("%", "&", "#", "_", "|"):
            self.out.append(("word", "and") if name == "&" else ("bar", "|") if name == "|" else ("op", name))
        elif name in ("$", "£", "€"):
            self.out.append(("cur", name))
        elif name == "\\":
            self.out.append(("op", "\\\\"))
            spacing = re.compile(r"\s*\[[^\[\]]{0,12}(?:pt|em|ex|mm|cm)\]").match(self.text, end)
            end = spacing.end() if spacing else end
        elif (size := _glued_size(name)) is not None:  # \\cdotx, \\pit: a space was lost
            end = self.command(name[:size], end)
            self.letters(name[size:], False)
        else:
            self.out.append(("cmd", name))
        return end

    def text_group(self, start: int, end: int, command: str) -> int:
        """The braced group of a text command; letters inside are words, but for one letter alone, which is a symbol."""
        close = _closing(self.text, start, end)
        content, after = self.text[start:close].strip(" ."), close + 1
        while close > start and self.text[close - 1] in " .":
            close -= 1
        if content.isalpha() and len(content) == 1:
            is_unit = content in UNITS and self.out and self.out[-1][0] in ("num", "close")
            self.out.append(("word", content) if is_unit else _letter(content))
        elif content.strip("{} ").isalpha() and command[0] == "o":
            self.letters(content.strip("{} "), False)
        elif command in ("mathcal", "mathscr", "boldsymbol", "bm", "mathbf", "bold") and not content.isalpha():
            self.run(start, close, False)
        else:
            self.run(start, close, True)
        return after

    def single(self, letter: str, prose: bool) -> Token:
        """One letter: a variable, but in prose an article, or a unit after a value."""
        before = self.out[-1] if self.out else ("", "")
        if (
            prose
            and letter in UNITS
            and (before[0] in ("num", "close") or before == ("op", "/") or (before[0] == "word" and before[1] in UNITS))
        ):
            return ("word", letter)
        return ("word", "a") if prose and letter == "a" else _letter(letter)

    def letters(self, run: str, prose: bool) -> None:
        """A run of letters: a function, a word, a unit, or a product of variables."""
        out = self.out
        if len(run) == 1:
            out.append(self.single(run, prose))
        elif run == "min" and out and out[-1][0] == "num":
            out.append(("word", run))
        elif prose:
            out.append(_word(run) or ("word", run))
        else:
            out.extend(_plain_run(run, bool(out) and out[-1][0] in ("num", "close", "op")))


def _letter(letter: str) -> Token:
    return ("const", letter) if letter in "ei" else ("sym", letter)


def _word(run: str) -> Token | None:
    """A run with a meaning in prose and plain text alike."""
    if run in FUNCTIONS:
        return ("fn", FUNCTIONS[run])
    lower = run.lower()
    if lower in WORD_VALUES:
        return WORD_VALUES[lower] if lower != "pi" or run != "PI" else None
    if run in LAZY and run != "inf":
        return ("lazy", LAZY[run])
    return ("word", run) if lower in _SHORT_WORDS and (len(run) != 2 or not run.isupper()) else None


@lru_cache(maxsize=2048)
def _plain_run(run: str, after_value: bool) -> tuple[Token, ...]:
    known = _word(run)
    if known is not None:
        return (known,)
    if after_value and (run in UNITS or run.removesuffix("s") in UNITS) and len(run) > 1:
        return (("word", run),)
    if glued := _GLUED.fullmatch(run):
        return (("word", glued[1]), *(_letter(c) for c in glued[2]))
    for size in (6, 5, 4, 3):
        if len(run) > size and (name := run[-size:]) in FUNCTIONS and len(run) - size <= 2:
            return (*(_letter(c) for c in run[:-size]), ("fn", FUNCTIONS[name]))
    if run.endswith("pi") and len(run) <= 4:
        return (*(_letter(c) for c in run[:-2]), ("const", "pi"))
    if "'" in run or len(run) >= 5 or (len(run) == 4 and run[1:].islower() and _VOWEL.search(run)) or _SHORT.search(run):
        return (("word", run),)
    return tuple(_letter(c) for c in run)


_SHORT = re.compile(r"^(?:yes|Yes|YES|No|odd|Odd|east|west|DNE|dne|Tom|Bob|red|one|two|six|ten|men)$")


@lru_cache(maxsize=512)
def _glued_size(name: str) -> int | None:
    """Where a known command ends in an unknown one."""
    if name in STRUCTURAL or not name.isalpha():
        return None
    sizes = range(len(name) - 1, 1, -1)
    return next((size for size in sizes if name[:size] in COMMANDS and (size > len(name) - 4 or name[size:] in FUNCTIONS)), None)


def _closing(text: str, start: int, end: int) -> int:
    depth = 1
    for brace in re.compile(r"\\.|[{}]", re.DOTALL).finditer(text, start, end):
        if brace[0] == "{":
            depth += 1
        elif brace[0] == "}":
            depth -= 1
            if not depth:
                return brace.start()
    raise Unreadable


def tokens(text: str, flip: bool = False) -> list[Token]:
    """The tokens of a cleaned text. Raises TooLarge over the caps and Unreadable where braces do not close.

    >>> tokens("2\\\\sqrt 3"), tokens("(1,234)")
    ([('num', '2'), ('cmd', 'sqrt'), ('num', '3')], [('open', '('), ('num', '1'), ('op', ','), ('num', '234'), ('close', ')')])
    """
    lexer = _Lexer(text, flip)
    lexer.run(0, len(text), False)
    return lexer.out
