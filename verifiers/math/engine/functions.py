"""Functions with their arguments, unevaluated forms with their bounds, and the words of a unit."""

from __future__ import annotations

from guerdon.verifiers.math.engine.atoms import Atoms
from guerdon.verifiers.math.engine.limits import Unreadable
from guerdon.verifiers.math.engine.nodes import Node, num
from guerdon.verifiers.math.engine.tables import HEDGES
from guerdon.verifiers.math.engine.units import is_unit_word

__all__ = ["ATOM_COMMANDS", "Functions"]

_words = str.split

ATOM_COMMANDS = frozenset(
    _words("frac dfrac tfrac cfrac sqrt binom dbinom tbinom boxed fbox begin vec overrightarrow overline bar hat widehat angle mathbb")
)
"""Commands that start a factor."""
_INVERSES = {"sin": "arcsin", "cos": "arccos", "tan": "arctan", "cot": "arccot"}
_TRIG = frozenset(_words("sin cos tan cot sec csc arcsin arccos arctan ln log lg sinh cosh tanh"))
_CLOSERS = {"(": ")", "[": "]", "{": "}"}
_BIG = frozenset(_words("int iint iiint oint sum prod lim"))


class Functions(Atoms):
    """Reads what follows a function name."""

    def function(self) -> Node:
        name = self.tokens[self.at][1]
        self.at += 1
        base = None
        if name == "log" and self.take("op", "_") is not None:
            base = self.argument()
        exponent = None
        if self.peek() == ("op", "^"):
            self.at += 1
            exponent = self.exponent()
            if exponent == num(-1) and name in _INVERSES:
                name, exponent = _INVERSES[name], None
        if base is None and name == "log" and self.take("op", "_") is not None:
            base = self.argument()
        node = self.apply(name, self.function_argument(name), base)
        return node if exponent is None else Node("pow", (node, exponent))

    @staticmethod
    def apply(name: str, argument: Node, base: Node | None) -> Node:
        if name == "sqrt":
            return Node("root", (argument, num(2)))
        if name == "cbrt":
            return Node("root", (argument, num(3)))
        if name == "binom":
            if argument.kind != "list" or len(argument.args) != 2:
                raise Unreadable("binom")
            return Node("fn", argument.args, "binom")
        if base is not None:
            return Node("fn", (argument, base), "log")
        return Node("fn", (argument,), name)

    def function_argument(self, name: str) -> Node:
        self.enter()
        kind, text = self.peek()
        if kind == "open" and text in ("(", "[", "{"):
            self.at += 1
            outer, self.bars = self.bars, 0
            node = self.structure()
            self.bars = outer
            if self.take("close", _CLOSERS[text]) is None:
                raise Unreadable("argument not closed")
            if text == "{" and name in _TRIG:
                node = self.more_factors(node)
        else:
            node = self.more_factors(self.signed() if kind == "op" else self.power())
        self.leave()
        return node

    def more_factors(self, node: Node) -> Node:
        """`\\sin 2\\pi x` takes the whole product; a function, a bracket or a sign of operation ends it."""
        while True:
            kind, text = self.peek()
            if kind in ("num", "sym", "const") or (kind == "cmd" and text in ATOM_COMMANDS):
                if kind == "num" and self.tokens[self.at - 1][0] == "num":
                    return node
                node = self.times(node, "*", self.power())
            elif (kind, text) == ("op", "/") and self.peek(1)[0] == "num":
                self.at += 1
                node = Node("div", (node, self.power()))
            else:
                return node

    def lazy(self) -> Node:
        """An unevaluated form: its bounds and the product it applies to, kept as they stand."""
        name = self.tokens[self.at][1]
        self.at += 1
        parts: list[Node] = []
        while (mark := self.take("op", "_", "^")) is not None:
            parts.append(Node("list", (self.bound(),), mark))
        if name in _BIG:
            self.enter()
            parts.append(self.expression() if name.endswith("int") else self.product())
            self.leave()
        else:
            parts.append(self.function_argument(name))
        return Node("lazy", tuple(parts), name)

    def bound(self) -> Node:
        if self.take("open", "{") is not None:
            node = self.structure()
            self.expect("close", "}")
            return node
        return self.argument()

    def unit_phrase(self) -> str:
        """Words (and powers) after a value that make a unit, passed over; "" when they do not."""
        parts: list[str] = []
        while len(parts) < 12 and (part := self.unit_part(parts)):
            parts.append(part)
            self.at += 1
        return " ".join(parts)

    def unit_part(self, parts: list[str]) -> str:
        """The next token as part of a unit phrase, or ""."""
        kind, text = self.peek()
        if kind == "word":
            is_unit = text.lower() not in HEDGES and is_unit_word(text) and (bool(parts) or text.lower() not in ("squared", "cubed"))
            return text if is_unit or (parts and text in ("per", "of")) else ""
        if not parts:
            return ""
        if kind == "op" and text in "^/" and self.peek(1)[0] in ("num", "open", "word", "op", "sym"):
            if self.peek(1) == ("open", "{"):
                self.at += 1
                exponent = self.script_text()
                self.at -= 1
                return f"{text} {exponent}"
            return text
        if parts[-1] == "^" and kind in ("num", "op"):
            return text
        return text if parts[-1] == "/" and kind == "sym" and text in ("s", "h", "m", "g", "L") else ""
