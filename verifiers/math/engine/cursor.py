"""The parser's cursor over tokens, with the depth cap, and the methods its layers call in each other."""

from __future__ import annotations

from guerdon.verifiers.math.engine.lexer import Token
from guerdon.verifiers.math.engine.limits import MAX_DEPTH, TooLarge, Unreadable
from guerdon.verifiers.math.engine.nodes import Node

__all__ = ["END", "Cursor"]

END: Token = ("end", "")


_GUARD = [END] * 8
"""Looking ahead, at most five tokens, never leaves the list."""


class Cursor:
    """A position in a token list. Layers above: Atoms, Expressions, Structures."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = [*tokens, *_GUARD]
        self.at = 0
        self.depth = 0
        self.bars = 0
        """Open absolute values: inside one, a bar closes it."""
        self.braced = False
        """Directly inside braces, which `\\over` splits."""

    def peek(self, ahead: int = 0) -> Token:
        return self.tokens[self.at + ahead]

    def take(self, kind: str, *texts: str) -> str | None:
        """The text of the next token if it is of this kind (and one of these texts), which is then passed."""
        found, text = self.tokens[self.at]
        if found != kind or (texts and text not in texts):
            return None
        self.at += 1
        return text

    def expect(self, kind: str, text: str) -> None:
        if self.take(kind, text) is None:
            raise Unreadable(f"expected {text}")

    def enter(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooLarge

    def leave(self) -> None:
        self.depth -= 1

    # What the layers provide.

    def expression(self) -> Node:
        raise NotImplementedError

    def structure(self) -> Node:
        raise NotImplementedError

    def halves(self) -> Node:
        raise NotImplementedError

    def row_part(self, condition: bool) -> Node:
        raise NotImplementedError

    def product(self) -> Node:
        raise NotImplementedError

    def signed(self) -> Node:
        raise NotImplementedError

    def exponent(self) -> Node:
        raise NotImplementedError

    @staticmethod
    def times(left: Node, mark: str, right: Node) -> Node:
        raise NotImplementedError

    def atom(self) -> Node:
        raise NotImplementedError

    def power(self) -> Node:
        raise NotImplementedError
