"""Structures: lists, relations and their chains, sets, unions, ratios, conditions; and the whole answer."""

from __future__ import annotations

from guerdon.verifiers.math.engine.cursor import END
from guerdon.verifiers.math.engine.expressions import Expressions
from guerdon.verifiers.math.engine.limits import Unreadable
from guerdon.verifiers.math.engine.nodes import Node, sym
from guerdon.verifiers.math.engine.tables import CONNECTORS, FILLERS, QUALIFIERS

__all__ = ["Structures"]

_SEPARATORS = (("op", ","), ("op", ";"), ("gap", ""), ("op", "\\\\"))
_ROW_END = ("op", "\\\\")
_ENDS = (END, ("op", "&"), _ROW_END, ("cmd", "end"))
"""A comma before one of these separates nothing."""
_NUMBER_SETS = tuple(sym(name) for name in "RZNQ")
_CASES = frozenset(("if", "when", "for", "otherwise", "unless"))


class Structures(Expressions):
    """Reads a whole answer."""

    last_case: int | None = None
    """Where the last word that opens a case stands; looked up once."""

    def answer(self) -> Node:
        """The whole token list as one structure."""
        node = self.structure(top=True)
        if self.peek() != END:
            raise Unreadable(f"left over: {self.peek()[1]}")
        return node

    def halves(self) -> Node:
        """What braces hold: of `{a + b \\over c}` all before the mark over all after it."""
        node = self.structure()
        mark = self.take("infix")
        if mark is None:
            return node
        other = self.structure()
        return Node("div", (node, other)) if mark == "/" else Node("fn", (node, other), "binom")

    def row_part(self, condition: bool) -> Node:
        """A cell of rows of statements; a later one of a row is the condition of the first."""
        if condition:
            while self.peek()[0] == "word" and self.peek()[1].lower() in _CASES:
                if self.take("word", "otherwise") is not None:
                    return Node("text", (), "otherwise")
                self.at += 1
        return self.structure(rows=True)

    def structure(self, top: bool = False, rows: bool = False) -> Node:
        self.enter()
        outer, self.in_set = self.in_set, False
        items, joint = [self.item(top)], ""
        while (mark := self.separator(rows)) is not None:
            if mark == "," and self.peek() in _ENDS:
                break
            joint = mark if joint in ("", ",") else joint
            items.append(self.item(top))
        self.in_set = outer
        self.leave()
        return items[0] if len(items) == 1 else Node("list", tuple(items), joint)

    def separator(self, rows: bool = False) -> str | None:
        found = None
        separators = _SEPARATORS[:-1] if rows else _SEPARATORS
        while (token := self.peek()) in separators or (token[0] == "word" and token[1].lower() in CONNECTORS):
            self.at += 1
            found = CONNECTORS[token[1].lower()] if token[0] == "word" else found or ","
        return found

    def item(self, top: bool = False) -> Node:
        while self.take("gap") is not None:
            pass
        self.fillers()
        if self.peek() == ("word", "for") and top:
            return self.quantified()
        node = self.chain()
        self.fillers()
        kind, text = self.peek()
        if kind == "word" and text.lower() in QUALIFIERS:
            return Node("cond", (node,), self.condition())
        if (kind, text) == ("open", "(") and self.peek(1)[0] == "word" and self.peek(1)[1].lower() in QUALIFIERS:
            self.at += 1
            node = Node("cond", (node,), self.condition(inside=True))
            self.expect("close", ")")
        elif (kind, text) == ("open", "(") and self.peek(1)[0] == "word":
            self.remark()
        elif (kind, text) == ("open", "(") and self.peek(2) == ("rel", "in") and self.peek(1)[0] == "sym":
            self.at += 1
            node = Node("list", (node, self.structure()), ",")
            self.expect("close", ")")
        elif (kind, text) == ("lazy", "mod") or ((kind, text) == ("open", "(") and self.peek(1) == ("lazy", "mod")):
            self.at += 1 + (kind == "open")
            node = Node("mod", (node, self.expression()))
            if kind == "open":
                self.expect("close", ")")
        elif (kind, text) == ("open", "(") and node.kind == "rel" and self.remark_ahead():
            self.at += 1
            node = Node("cond", (node,), self.condition(inside=True))
            self.expect("close", ")")
        return node

    def remark(self) -> None:
        """`(double root)`: words in brackets, passed over. Words that hedge never come this far."""
        self.at += 1
        while (word := self.take("word")) is not None:
            if word.lower() in CONNECTORS:  # (or six): another value
                raise Unreadable("remark")
        self.expect("close", ")")

    def remark_ahead(self) -> bool:
        """`y = x + k (k \\in \\mathbb{Z})`: a bracket that holds a relation."""
        depth = 0
        for kind, _ in self.tokens[self.at :]:
            depth += (kind == "open") - (kind == "close")
            if depth == 1 and kind == "rel":
                return True
            if not depth:
                return False
        return False

    def fillers(self) -> None:
        while (token := self.peek())[0] == "word" and token[1].lower() in FILLERS:
            self.at += 1
            self.take("op", ":")

    def quantified(self) -> Node:
        """`\\forall x > 0, ...`: the tokens as they stand."""
        rest = [token for token in self.tokens[self.at + 1 :] if token != END]
        if rest and rest[0][0] == "word" and rest[0][1] in ("all", "every", "any"):
            rest = rest[1:]
        self.at = len(self.tokens) - 1
        return Node("quant", (), tuple(token for token in rest if token[0] != "gap" and token[1] not in ("{", "}")))

    def condition(self, inside: bool = False) -> str:
        """The tokens of a condition, up to its end or to the next named value."""
        parts: list[str] = []
        depth = 0
        while (token := self.peek()) != END:
            depth += (token[0] == "open") - (token[0] == "close")
            if depth < 0 or (depth == 0 and not inside and (self.next_statement() or self.next_case())):
                break
            if token == ("word", "otherwise"):  # another value follows
                raise Unreadable("otherwise")
            parts.append(token[1])
            self.at += 1
        return " ".join(parts)

    def next_statement(self) -> bool:
        """At a separator after which a name and `=` follow."""
        at = self.at
        while self.tokens[at] in _SEPARATORS or self.tokens[at][1].lower() in ("and", "or"):
            at += 1
        if at == self.at or self.tokens[at][0] != "sym":
            return False
        window = self.tokens[at + 1 : at + 7]
        stop = next((k for k, token in enumerate(window) if token == ("rel", "=")), None)
        return stop is not None and all(k in ("open", "close", "sym", "num", "op") and t != "," for k, t in window[:stop])

    def next_case(self) -> bool:
        """At a separator after which another condition follows: what stands between them is another value, not part of this condition."""
        token = self.peek()
        if token not in _SEPARATORS and token[1].lower() not in ("and", "or"):
            return False
        if self.last_case is None:
            self.last_case = max((k for k, (kind, text) in enumerate(self.tokens) if kind == "word" and text.lower() in _CASES), default=-1)
        return self.last_case > self.at

    def alignment(self) -> None:
        """An `&` beside a relation only lines rows up."""
        if self.peek() == ("op", "&") and self.peek(1)[0] == "rel":
            self.at += 1

    def relation(self) -> str | None:
        self.alignment()
        mark = self.take("rel")
        if mark is not None and self.peek() == ("op", "&"):
            self.at += 1
        return mark

    def chain(self) -> Node:
        self.alignment()
        operands: list[Node] = []
        operators: list[str] = []
        if self.peek() == ("rel", "~"):  # about 3.14: what is written is what counts
            self.at += 1
        if self.peek()[0] == "rel":
            operands.append(Node("blank"))
        else:
            operands.append(self.operand())
        while (mark := self.relation()) is not None:
            self.fillers()
            if operands[-1].kind == "rel" or mark == "implies":
                raise Unreadable("implication")
            operators.append(mark)
            operand = self.operand()
            operands.append(Node("reals", (), operand.value) if mark == "in" and operand in _NUMBER_SETS else operand)
        if not operators:
            return operands[0]
        return Node("rel", tuple(operands), tuple(operators))

    def operand(self) -> Node:
        if self.tokens[self.at][0] == "sym" and self.peek(1) != END and (applied := self.application()) is not None:
            return applied
        node = self.ratio()
        while (mark := self.take("setop")) is not None:
            node = Node(mark, (node, self.ratio()))
        if node.kind == "add" and node.args[0].kind in ("set", "builder", "reals", "tuple") and all(a.kind == "neg" for a in node.args[1:]):
            first, *rest = node.args
            for removed in rest:
                first = Node("minus", (first, removed.args[0]))
            return first
        return node

    def application(self) -> Node | None:
        """`f(x)` before a relation: a name, not a product."""
        start = self.at
        self.at += 1
        name = self.named(self.tokens[start][1])
        inverse = self.tokens[self.at : self.at + 1] == [("op", "^")]
        if inverse and self.peek(1) == ("open", "{") and self.peek(2) == ("op", "-") and self.peek(4) == ("close", "}"):
            self.at += 5
            name = Node("sym", (), name.value + "^-1")
        arguments: list[Node] = []
        if self.take("open", "(") is not None:
            while (kind := self.peek()[0]) in ("sym", "num", "const"):
                text = self.tokens[self.at][1]
                self.at += 1
                arguments.append(self.named(text) if kind == "sym" else Node("sym", (), text))
                if self.take("op", ",") is None:
                    break
            if arguments and self.take("close", ")") is not None and self.peek()[0] == "rel":
                return Node("app", tuple(arguments), name.value)
        self.at = start
        return None

    def ratio(self) -> Node:
        node = self.expression()
        if self.in_set or self.peek() != ("op", ":"):
            return node
        parts = [node]
        while self.take("op", ":") is not None:
            parts.append(self.expression())
        if parts[-1].kind == "unit":  # 1:03 PM
            return Node("unit", (Node("ratio", (*parts[:-1], parts[-1].args[0])),), parts[-1].value)
        return Node("ratio", tuple(parts))

    def braces(self) -> Node:
        """`\\{...\\}`: the empty set, members, or a set-builder."""
        if self.take("close", "\\}") is not None:
            return Node("empty")
        outer, self.in_set = self.in_set, True
        items = [self.chain()]
        while self.separator() is not None:
            items.append(self.chain())
        if self.take("bar") is not None or self.take("op", ":") is not None:
            self.in_set = False
            condition = self.structure()
            self.in_set = outer
            self.expect("close", "\\}")
            return Node("builder", (items[0] if len(items) == 1 else Node("list", tuple(items), ","), condition))
        self.in_set = outer
        self.expect("close", "\\}")
        return Node("set", tuple(items))
