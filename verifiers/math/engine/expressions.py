"""Expressions: sums, products (also implied), signs, powers, functions, factorials, percent, degrees, units."""

from __future__ import annotations

from guerdon.verifiers.math.engine.functions import ATOM_COMMANDS, Functions
from guerdon.verifiers.math.engine.limits import Unreadable
from guerdon.verifiers.math.engine.nodes import Node, negated, num
from guerdon.verifiers.math.engine.units import canonical_unit

__all__ = ["Expressions"]

_words = str.split

_STARTS = frozenset(("sym", "const", "fn", "lazy", "open", "rep"))
_SCALES = (("sym", "C"), ("sym", "F"))
"""Of temperature, after a degree sign."""
_ORDINALS = frozenset(("th", "st", "nd", "rd"))


class Expressions(Functions):
    """Reads one expression."""

    def expression(self) -> Node:
        terms = [self.first_term()]
        while True:
            if self.take("op", "+") is not None:
                terms.append(self.product())
            elif self.take("op", "-") is not None:
                terms.append(negated(self.product()))
            elif (sign := self.take("pm")) is not None:
                left = terms[0] if len(terms) == 1 else Node("add", tuple(terms))
                terms = [Node("pm", (left, self.product()), sign)]
            else:
                return terms[0] if len(terms) == 1 else Node("add", tuple(terms))

    def first_term(self) -> Node:
        if (sign := self.take("pm")) is not None:
            return Node("pm", (num(0), self.product()), sign)
        return self.product()

    def product(self) -> Node:
        node = self.signed()
        while True:
            kind, text = self.peek()
            if (kind == "op" and text in "*/") or (kind == "infix" and text == "/" and not self.braced):
                self.at += 1
                node = self.times(node, text, self.signed())
            elif self.starts_factor(kind, text):
                node = self.implied(node)
            elif kind == "word" and (unit := self.unit_phrase()):
                return self.compound(Node("unit", (node,), unit))
            elif kind == "cur":
                self.at += 1
                node = Node("unit", (node,), text)
            else:
                return node

    def compound(self, first: Node) -> Node:
        """`5 feet 6 inches`: the larger unit counted in the smaller; `2 cm and 3 cm` is a list."""
        joined = self.peek() == ("word", "and")
        if self.peek(joined)[0] != "num":
            return first
        start = self.at
        self.at += joined
        second = self.product()
        if joined and (second.kind != "unit" or not _is_larger(first.value, second.value)):
            self.at = start
            return first
        if second.kind != "unit":
            raise Unreadable("a number after a unit")
        (dimensions, size), (others, other_size) = canonical_unit(first.value), canonical_unit(second.value)
        if dimensions != others or not dimensions:
            raise Unreadable("two units")
        return Node("unit", (Node("add", (self.times(num(size / other_size), "*", first.args[0]), second.args[0])),), second.value)

    @staticmethod
    def times(left: Node, mark: str, right: Node) -> Node:
        if mark == "/":
            return Node("div", (left, right))
        if left.kind == "dec" and right.kind == "pow" and right.args[0] == num(10) and right.args[1].kind == "num":
            shift = right.args[1].value  # 1.5 * 10^3 is one literal
            if shift.denominator == 1 and abs(shift) < 400:
                value, places, digits = left.value
                return Node("dec", (), (value * num(10).value ** int(shift), places - int(shift), digits))
        return Node("mul", (*left.args, right) if left.kind == "mul" else (left, right))

    def starts_factor(self, kind: str, text: str) -> bool:
        if (kind, text) == ("open", "(") and (self.peek(1)[0] == "word" or self.remark_follows()):
            return False
        if kind in _STARTS:
            return kind != "lazy" or text != "mod"
        if kind == "cmd":
            return text in ATOM_COMMANDS
        if kind == "bar":
            return self.bars == 0 and not self.in_set
        return kind == "num" and self.tokens[self.at - 1][0] != "num"

    def remark_follows(self) -> bool:
        """At `(k \\in \\mathbb{Z})` or `(mod 7)`."""
        return self.peek(1) == ("lazy", "mod") or (self.peek(1)[0] == "sym" and self.peek(2) == ("rel", "in"))

    in_set = False
    """Directly inside set braces, where a bar separates."""

    def implied(self, left: Node) -> Node:
        """Multiplication without a sign; an integer before a proper fraction of integers is a mixed number."""
        before = self.tokens[self.at - 1][0]
        right = self.power()
        if left.kind == "num" and left.value.denominator == 1 and before == "num" and right.kind == "div" and _is_proper(right):
            return Node("add", (left, right)) if left.value >= 0 else negated(Node("add", (negated(left), right)))
        return self.times(left, "*", right)

    def signed(self) -> Node:
        if self.take("op", "-") is not None:
            self.enter()
            node = negated(self.mixed(self.signed()))
            self.leave()
            return node
        if self.take("op", "+") is not None:
            self.enter()
            node = self.signed()
            self.leave()
            return node
        return self.mixed(self.power())

    def mixed(self, node: Node) -> Node:
        """`1 1/2` and `1\\frac12`, before a sign is applied."""
        if node.kind != "num" or node.value.denominator != 1 or self.tokens[self.at - 1][0] != "num":
            return node
        kinds = [self.peek(k) for k in range(3)]
        if kinds[0][0] == "num" and kinds[1] == ("op", "/") and kinds[2][0] == "num" and kinds[0][1].isdigit() and kinds[2][1].isdigit():
            self.at += 3
            part = Node("div", (num(int(kinds[0][1])), num(int(kinds[2][1]))))
            if not _is_proper(part):
                raise Unreadable("two numbers side by side")
            return Node("add", (node, part))
        if self.peek()[0] == "cmd" and self.peek()[1] in ("frac", "dfrac", "tfrac"):
            part = self.atom()
            if part.kind == "div" and _is_proper(part) and self.peek() != ("op", "^"):
                return self.postfix(Node("add", (node, part)))
            return self.times(node, "*", self.postfix(part))
        return node

    def power(self) -> Node:
        kind = self.peek()[0]
        if kind == "fn":
            node = self.function()
        elif kind == "lazy":
            node = self.lazy()
        else:
            node = self.atom()
        return self.postfix(node)

    def postfix(self, node: Node) -> Node:
        while True:
            kind, text = self.peek()
            if kind == "degree":
                self.at += 1
                node = self.minutes(node)
            elif kind == "prime" and node.kind == "degree":
                self.at += 1
            elif kind == "scale" and node.kind in ("num", "dec"):  # 1.5 million
                self.at += 1
                node = self.times(node, "*", Node("pow", (num(10), num(int(text)))))
            elif kind != "op":
                return self.ordinal(node) if kind == "word" else node
            elif text == "^":
                node = self.raised(node)
            elif text == "!":
                self.at += 1
                node = Node("fn", (node,), "factorial")
            elif text == "%":
                self.at += 1
                node = Node("percent", (node,))
            else:
                return node

    def raised(self, node: Node) -> Node:
        self.at += 1
        if self.take("degree") is not None:
            return self.minutes(node)
        if self.peek() == ("open", "{") and self.peek(1)[0] == "degree" and self.peek(2) == ("close", "}"):
            self.at += 3
            return self.minutes(node)
        exponent = self.exponent()
        if node == Node("const", (), "e"):
            return Node("fn", (exponent,), "exp")
        return Node("pow", (node, exponent))

    def exponent(self) -> Node:
        """What stands above: a group, one atom, or in plain text a sign and an atom; `a^b^c` is `a^(b^c)`."""
        self.enter()
        if self.take("op", "-") is not None:
            node = negated(self.exponent())
        elif self.take("op", "+") is not None:
            node = self.exponent()
        else:
            node = self.atom() if self.peek()[0] not in ("fn", "lazy") else self.power()
            if self.peek() == ("op", "^") and self.peek(1)[0] != "degree":
                node = self.raised(node)
        self.leave()
        return node

    def minutes(self, node: Node) -> Node:
        """`60^\\circ 42'`."""
        if self.peek()[0] == "num" and self.peek(1)[0] == "prime":
            part = Node("div", (num(int(self.peek()[1])), num(60))) if self.peek()[1].isdigit() else num(0)
            self.at += 2
            return Node("degree", (Node("add", (node, part)),))
        if self.peek() in _SCALES and self.peek(1)[0] in ("end", "op", "word", "close"):
            self.at += 1
            return Node("unit", (node,), "°" + self.tokens[self.at - 1][1])
        return Node("degree", (node,))

    def ordinal(self, node: Node) -> Node:
        if node.kind == "num" and self.peek()[1] in _ORDINALS:
            self.at += 1
        return node


def _is_larger(unit: str, other: str) -> bool:
    (dimensions, size), (others, other_size) = canonical_unit(unit), canonical_unit(other)
    return bool(dimensions) and dimensions == others and size > other_size


def _is_proper(node: Node) -> bool:
    top, bottom = node.args
    return top.kind == bottom.kind == "num" and top.value.denominator == bottom.value.denominator == 1 and 0 < top.value < bottom.value
