"""Atoms: numbers, symbols with their subscripts, groups, roots, fractions, matrices, accents."""

from __future__ import annotations

from fractions import Fraction

from guerdon.verifiers.math.engine.cursor import END, Cursor
from guerdon.verifiers.math.engine.limits import Unreadable
from guerdon.verifiers.math.engine.nodes import Node, num, sym
from guerdon.verifiers.math.engine.tables import ACCENTS

__all__ = ["Atoms", "literal"]

_FRACS = frozenset(("frac", "dfrac", "tfrac", "cfrac"))
_BINOMS = frozenset(("binom", "dbinom", "tbinom"))
_ROWS = frozenset(("cases", "aligned", "align", "gathered", "gather", "split", "dcases", "rcases"))
"""Environments whose rows are statements."""
_PAIRS = {"(": ")", "[": "]", "<": ">"}
_BASES = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "twelve": 12, "sixteen": 16}


def literal(text: str) -> Node:
    """A number token: digits are exact, a decimal point or exponent keeps the written precision.

    >>> literal("12").value, literal("2.50").value
    (Fraction(12, 1), (Fraction(5, 2), 2, 3))
    """
    if text.isdigit():
        return Node("num", (), Fraction(int(text)))
    mantissa, _, power = text.lower().partition("e")
    whole, _, decimals = mantissa.partition(".")
    shift = int(power) if power else 0
    if abs(shift) > 5_000:
        raise Unreadable("exponent")
    digits = (whole + decimals).lstrip("0") or "0"
    value = Fraction(int(whole + decimals or "0")) * Fraction(10) ** (shift - len(decimals))
    return Node("dec", (), (value, len(decimals) - shift, len(digits)))


def _repeating(text: str) -> Node:
    """`0.1\\overline{6}`: exact."""
    head, _, tail = text.partition("\\")
    whole, _, fixed = head.partition(".")
    cycle = "".join(c for c in tail if c.isdigit())
    value = Fraction(int(whole + fixed or "0"), 10 ** len(fixed)) + Fraction(int(cycle), (10 ** len(cycle) - 1) * 10 ** len(fixed))
    return num(value)


class Atoms(Cursor):
    """Reads one atom."""

    def atom(self) -> Node:
        kind, text = self.tokens[self.at]
        self.at += 1
        if kind == "num":
            return self.number(text)
        if kind == "sym":
            if text == "Delta" and self.peek()[0] == "sym":  # a difference is one quantity
                text = f"Delta {self.tokens[self.at][1]}"
                self.at += 1
            return self.named(text)
        if kind == "const":
            return Node("const", (), text) if text == "inf" or self.peek() != ("op", "_") else self.named(text)
        if kind == "open":
            return self.group(text)
        if kind == "cmd":
            return self.command(text)
        if kind == "bar":
            return self.absolute()
        if kind == "rep":
            return _repeating(text)
        if kind == "empty":
            return Node("empty")
        if kind == "dots":
            return Node("dots")
        if kind == "cur":
            return Node("unit", (self.power(),), text)
        raise Unreadable(f"{text or kind} does not start an expression")

    def number(self, text: str) -> Node:
        if self.peek() == ("op", "_"):
            base = self.base_subscript()
            return Node("based", (), (text.lstrip("0") or "0", base))
        return literal(text)

    def base_subscript(self) -> int:
        self.at += 1
        inner = self.script_text()
        base = _BASES.get(inner.lower()) or (int(inner) if inner.isdigit() and len(inner) < 3 else 0)
        if not 2 <= base <= 36:
            raise Unreadable("base")
        return base

    def script_text(self) -> str:
        """The tokens of a subscript as one name, unread."""
        if self.peek() != ("open", "{"):
            self.at += 1
            kind, text = self.tokens[self.at - 1]
            if kind in ("num", "sym", "const", "cmd", "lazy", "word", "fn"):
                return text
            raise Unreadable("subscript")
        self.at += 1
        parts: list[str] = []
        depth = 1
        while True:
            token = self.peek()
            if token == END:
                raise Unreadable("subscript")
            self.at += 1
            depth += (token == ("open", "{")) - (token == ("close", "}"))
            if not depth:
                return "".join(parts)
            if token not in (("open", "{"), ("close", "}")):
                parts.append(token[1])

    def named(self, name: str) -> Node:
        """A symbol with its subscript and primes."""
        while True:
            if self.peek() == ("op", "_"):
                self.at += 1
                name = f"{name}_{self.script_text()}"
            elif self.take("prime") is not None:
                name += "'"
            elif self.peek() == ("op", "^") and self.peek(1)[0] == "prime":
                self.at += 2
                name += "'"
            elif (
                self.tokens[self.at : self.at + 2] == [("op", "^"), ("open", "{")]
                and self.peek(2)[0] == "prime"
                and self.peek(3) == ("close", "}")
            ):
                self.at += 4
                name += "'"
            else:
                return sym(name)

    def group(self, mark: str) -> Node:
        self.enter()
        outer, self.bars = self.bars, 0
        around, self.braced = self.braced, mark == "{"
        if mark == "\\{":
            node = self.braces()
        elif mark == "{":
            node = Node("list", (), ",") if self.peek() == ("close", "}") else self.halves()
            self.expect("close", "}")
        elif mark == "|":
            node = Node("fn", (self.expression(),), "abs")
            self.expect("close", "|")
        elif mark in ("floor", "ceil"):
            node = Node("lazy", (self.expression(),), mark)
            self.expect("close", mark)
        else:
            node = self.round_group(mark)
        self.bars, self.braced = outer, around
        self.leave()
        return node

    def round_group(self, mark: str) -> Node:
        if self.peek()[0] == "close":
            raise Unreadable("empty group")
        inner = self.structure()
        close = self.take("close", ")", "]", ">")
        if close is None or (mark == "<") != (close == ">"):
            raise Unreadable("bracket not closed")
        if inner.kind == "list" and inner.value == ",":
            return Node("tuple", inner.args, "()" if mark == "<" else mark + close)
        if close != _PAIRS[mark]:
            raise Unreadable("brackets differ")
        if inner.kind == "matrix" or mark == "(" or mark == "[":
            digits = inner.kind == "num" and self.peek() == ("op", "_")
            return Node("based", (), (str(inner.value.numerator), self.base_subscript())) if digits else inner
        return Node("tuple", (inner,), "()")

    def braces(self) -> Node:
        raise NotImplementedError

    def absolute(self) -> Node:
        self.enter()
        self.bars += 1
        node = Node("fn", (self.expression(),), "abs")
        self.bars -= 1
        self.expect("bar", "|")
        self.leave()
        return node

    def argument(self) -> Node:
        """A command's argument: a braced group or one token; of a run of digits the first (`\\frac43`)."""
        kind, text = self.peek()
        if (kind, text) == ("open", "{"):
            self.at += 1
            return self.group("{")
        if kind == "num" and len(text) > 1 and text.isdigit():
            self.tokens[self.at] = ("num", text[1:])
            return literal(text[0])
        if kind in ("num", "const"):
            self.at += 1
            return literal(text) if kind == "num" else Node("const", (), text)
        self.enter()
        node = self.atom()
        self.leave()
        return node

    def command(self, name: str) -> Node:
        if name in _FRACS:
            return Node("div", (self.argument(), self.argument()))
        if name == "sqrt":
            return self.root()
        if name in _BINOMS:
            return Node("fn", (self.argument(), self.argument()), "binom")
        if name in ("boxed", "fbox"):
            return self.argument()
        if name == "begin":
            return self.environment()
        if name == "mathbb":
            return self.number_set()
        if name in ACCENTS:
            return self.accented(name)
        if name in ("angle", "triangle", "measuredangle", "odot", "square"):
            return self.label(name)
        if name == "color":
            self.script_text()
            return self.atom()
        raise Unreadable(f"\\{name}")

    def number_set(self) -> Node:
        """`\\mathbb{R}`, with a mark: `\\mathbb{R}^+`, `\\mathbb{N}_0`."""
        name = self.script_text()
        while self.peek() in (("op", "^"), ("op", "_")):
            follows = self.peek(1)
            if follows[0] == "op":
                self.at += 2
                name += follows[1]
            elif follows in (("open", "{"), ("num", "0")):
                self.at += 1
                name += self.script_text()
            else:
                break
        return Node("reals", (), name)

    def accented(self, name: str) -> Node:
        mark = "" if name in ("vec", "overrightarrow") else name + " "
        if self.peek() != ("open", "{"):
            return self.named(mark + self.script_text())
        return self.named(mark + self.script_text())

    def label(self, name: str) -> Node:
        """`\\angle ABC`: one name."""
        letters = []
        while (part := self.take("sym")) is not None or (part := self.take("num")) is not None:
            letters.append(part)
        if not letters:
            raise Unreadable(name)
        return sym(f"{name} {''.join(letters)}")

    def root(self) -> Node:
        index = num(2)
        if self.peek() == ("open", "["):
            self.at += 1
            index = self.expression()
            self.expect("close", "]")
        kind, text = self.peek()
        if kind == "num":
            self.at += 1
            return Node("root", (literal(text), index))
        return Node("root", (self.argument(), index))

    def environment(self) -> Node:
        name = self.script_text().rstrip("*")
        if name in ("array", "tabular") and self.peek() == ("open", "{"):
            self.script_text()
        is_matrix = name.endswith("matrix") or name == "array"
        if not is_matrix and name not in _ROWS:
            raise Unreadable(name)
        rows: list[Node] = []
        cells: list[Node] = []
        while self.peek() != ("cmd", "end"):
            if self.peek() not in (("op", "&"), ("op", "\\\\")):
                cells.append(self.expression() if is_matrix else self.row_part(bool(cells)))
            if self.take("op", "\\\\") is not None:
                rows.append(Node("row", tuple(cells)))
                cells = []
            elif self.take("op", "&") is None:
                break
        self.expect("cmd", "end")
        self.script_text()
        if cells:
            rows.append(Node("row", tuple(cells)))
        if not rows or any(len(row.args) != len(rows[0].args) for row in rows):
            raise Unreadable("ragged matrix")
        if not is_matrix:
            items = tuple(row.args[0] if len(row.args) == 1 else Node("cases", row.args) for row in rows if row.args)
            return items[0] if len(items) == 1 else Node("list", items, "and")
        return Node("matrix", tuple(rows)) if name != "vmatrix" else Node("lazy", (Node("matrix", tuple(rows)),), "det")
