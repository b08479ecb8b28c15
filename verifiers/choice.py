"""Multiple choice: which letter, A to J, does the completion name as its answer?

The letter is read from the completion alone, never by looking for the reference in it, so no text is right for two references. A
letter counts where it can be nothing else: in a box or an `<answer>` span, after "the answer is" and its kin, alone on a line, or
before the text of an option ("B. Paris"). All such places must agree: a completion that names two different letters is wrong, and an
alternative that follows a letter ("A, maybe B", "A (or B)", "B is also correct") names a second one.
Nothing is guessed from prose ("A dog barks" names no letter). Questions with several right letters at once are not handled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from guerdon.errors import ConfigError
from guerdon.types import Rollout, Status, Verdict
from guerdon.verifiers.base import judge_rows, strip_reasoning
from guerdon.verifiers.boxes import boxes

__all__ = ["ChoiceVerifier", "named_letters"]

LETTERS = "ABCDEFGHIJ"

# --- text without markup

_WIDE = str.maketrans(
    "（）［］：．，、。；？！／＝" + "".join(chr(0xFF21 + i) for i in range(26)), "()[]:.,,.;?!/=" + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)
_INLINE = re.compile(
    r"\\(?:text(?:bf|it|rm|sf|tt|normal)?|math(?:rm|bf|sf|it|tt)|boldsymbol|bm|mbox|hbox|boxed|fbox|left|right|operatorname)(?![A-Za-z])"
    r"|</?(?:b|i|u|em|strong)>|\\[()\[\]!]|[{}$*_\u200b-\u200f\u2060\ufeff`\"“”]|(?<!\w)['‘’]|['‘’](?!\w)"
)
_BLANK = re.compile(r"(?:\\[ ,;:]|~|\\q?quad(?![A-Za-z])|[^\S\n])+")
_BREAK = re.compile(r"(?: |</?answer>)*(?:\n|</?answer>)(?:[ \n]|</?answer>)*")
_BRACKETED = re.compile(r"(?<![\w)])[(\[<] ?([A-Za-z]) ?[)\]>]")


def _clean(text: str) -> str:
    """The text without emphasis, LaTeX wrappers and wide punctuation; single blanks and newlines; a bracketed letter as "(A)"."""
    text = _BLANK.sub(" ", _INLINE.sub("", text.translate(_WIDE)))
    text = _BREAK.sub("\n", text).strip()
    return _BRACKETED.sub(lambda m: f"({m[1].upper()})", text)


# --- the letters named at one place

_FILLER = (
    r"(?i:(?:the|letter|option|choice|answer|number|indeed|clearly|definitely|therefore|thus|then|simply|most|likely|probably|"
    r"either|both|between|:) ){0,4}"
)
_PROSE = (
    r"(?:because|since|as|which|that|due|given|so|but|where|based|for|from|with|in|by|after|not|rather|according|it|this|we|or|"
    r"and|nor|plus)"
)
_FOLLOW = rf"(?=$|\n|[,;:!?/&|+]|\.(?![0-9a-z])| [-–—(&|/+]| [A-Z](?!\w)| {_PROSE}(?!\w))"
_FIRST = re.compile(rf"{_FILLER}(?:\(([A-Z])\)|([A-Z])(?:\)|{_FOLLOW})|([a-z])(?:\)|(?=$|\n|[,;:!?]|\.(?!\w))))")
_AND = re.compile(
    r"[ \n,;]{0,4}(?:and/or|or|and|nor|as well as|plus|[/&|+])"
    r"(?: (?:also|maybe|perhaps|possibly|even|the|both|either|option|choice|answer)){0,4} ?"
    r"(?:\(([A-Z])\)|([A-Z])(?![\w'’])(?!(?<=[AI]) [a-z]))",
    re.IGNORECASE | re.ASCII,
)
_NEXT = re.compile(
    r"[ ,;.:)?–—-]{0,4}(?:\(([A-Z])\)(?! [a-z])|(?<![\w'’])([A-Z])(?=$|\n|[.,;!?)/&|]| [&|/+]| (?:or|and)(?!\w)| [A-Z](?!\w)))"
)
# An alternative that follows a letter: "A (or B)", "A. Or B.", "A (60%), B (40%)". Not "A. Also, C is wrong": what follows B must end it.
_HEDGE = re.compile(
    r"(?: ?\([^()\n]{0,40}\)| (?:with )?\d{1,3} ?%)?[ \n,;.:(]{0,4}(?:(?:but|or|and) )?(?:"
    r"(?:or|else|otherwise|failing that|alternatively|maybe|perhaps|possibly|also|"
    r"(?:it|this) (?:could|might|may)(?: also)? be)(?: (?:option|choice|answer|the))?[,:]? "
    r"|也?可能是 ?|或者? ?|(?=[A-Z] (?:with |\()?\d{1,3} ?%|[A-Z] as (?:a |my )?(?:fallback|backup|second|alternative)))"
    r"(?:\(([A-Z])\)|([A-Z])(?![\w'’]))(?=[.;!?)\n]|$| \(| as(?!\w)| (?:with )?\d|,? (?:or|maybe|perhaps|possibly)(?!\w)"
    r"| is (?:also )?(?:possible|plausible|correct|right|valid))",
    re.IGNORECASE | re.ASCII,
)
_OPEN_END = re.compile(r"\)? ?(?:[/&|+?]|,? ?(?:or|nor|if|unless|when|assuming|provided|depending)(?!\w))", re.IGNORECASE)


def _letters(match: re.Match[str]) -> set[str]:
    return {group.upper() for group in match.groups() if group}


def _list_at(text: str, at: int) -> tuple[set[str], int]:
    """The letters named at a place ("A", "(A) or (B)", "A, B and C") and where they end. None in a question or condition ("A?", "A if")."""
    first = _FIRST.match(text, at)
    if first is None:
        return set(), at
    letters, end = _letters(first), first.end()
    while following := (_AND.match(text, end) or _NEXT.match(text, end) or _HEDGE.match(text, end)):
        letters |= _letters(following)
        end = following.end()
    return (letters, end) if len(letters) > 1 or not _OPEN_END.match(text, end) else (set(), at)


# --- the places

_HEAD = re.compile(
    r"(?<![A-Za-z])(?:(?:answer|choice|option|selection)(?: (?:choice|option|letter|selected|chosen))? ?"
    r"(?:(?:is|was|should be|must be|would be)(?![A-Za-z]) ?:?|[:=]|->|→|[-–—](?= ))"
    r"|(?:i|we)(?: also| will| would|['’](?:ll|d))? (?:choose|chose|pick|picked|select|selected|go with)(?![A-Za-z])"
    r"|(?:actually|no|wait|rather|instead|sorry|correction)(?:[,:.!]? (?:it is|it['’]s|that is|make (?:it|that))|[,:])"
    r"|(?:答案|选项)(?:应该|应)?(?:是|为|选)? ?:?|选择?(?:是|为)? ?:?)[ \n]{0,2}",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"(?:\b(?:not|never|wrong|incorrect|false|if|whether|suppos(?:e|ing)|assum(?:e|ing)|doubt|unless|possible|potential|"
    r"each|every|another(?! (?:valid|correct|right) )|(?<!my )other|previous|initial)"
    r"|n['’]t)(?: (?!so|but|hence|thus|then|therefore)[\w'’]+){0,3} $",
    re.IGNORECASE,
)
_LEAD = r"^[-•#> ]{0,6}(?i:(?:the|my|final|correct|right|best|option|choice|answer)[ :]{1,2}){0,5}"
_LINE = re.compile(_LEAD + r"(?=\(?[A-Z](?![\w'’]))", re.MULTILINE)
_LINE_END = re.compile(r"[ .):!]{0,3}(?:\n|\Z)")
_OPTION = re.compile(_LEAD + r"(?:\(([A-Z])\)[.:]?|([A-HJ])(?:[):]|\.(?![0-9a-z])| [-–—](?= ))) ?(?=[^\s.])", re.MULTILINE)
_LOWER_OPTION = re.compile(r"([a-hj])[.)] (?=\S)")
_RIGHT = re.compile(
    r"(?:^|[.!?:;,] ?|(?<!\w)and )(?i:(?:therefore|thus|so|hence|only|the|then|and|clearly),? ){0,3}(?i:option |choice |answer )?"
    r"(?:\(([A-Z])\)|([A-HJ])) is (?:(?:clearly|also|the|only|most|likely|definitely|thus|indeed) ){0,3}(?:correct|right|best|answer)(?!\w)"
    r"(?! (?:\w+ )?(?:if|unless|when)(?!\w))(?!(?: \w+)?\?)",
    re.MULTILINE,
)
_BOTH = re.compile(
    r"(?<!\w)\(?([A-Z])\)?,? (?:and|or|&) (?:(?:option|choice|also) ){0,2}\(?([A-Z])\)? (?:are|is) "
    r"(?:(?:both|also|all|each|equally) ){0,2}(?:correct|right|valid|true)"
)
_ALSO = re.compile(
    r"(?<![\w'’])\(?([A-Z])\)? (?:(?:is|may|might|could|can|would)(?: be)? also (?:be )?(?:an? |the )?"
    r"(?:correct|right|valid|acceptable|work)(?!\w)|(?:works|is (?:correct|right|valid|acceptable)),? (?:too|as well)(?!\w))"
    r"(?! (?:\w+ )?(?:if|unless|when)(?!\w))"
)
_MARKER = re.compile(r"\(([A-Z])\)|(?<![\w.'’])([A-Z])[.):] ?(?=\S)|(?:(?<!\w)(?:or|and)|[/&|,+]) ?\(?([A-Z])\)?[.)]*$")


def named_letters(completion: str, choices: Sequence[str] = ()) -> set[str]:
    """Every letter the completion names as its answer, outside its reasoning. `choices` are the options' texts, A first.

    >>> [sorted(named_letters(text)) for text in ("The answer is (B).", "A or B", "A dog barks")]
    [['B'], ['A', 'B'], []]
    """
    rest, texts = strip_reasoning(completion), _by_text(choices)
    clean = _clean(rest)
    letters: set[str] = set()
    for found in _claims(rest, clean, texts):
        letters |= found
        if len(letters) > 1:
            break
    return letters


def _claims(rest: str, clean: str, texts: Mapping[str, str]) -> Iterator[set[str]]:
    """What each place names."""
    spans = [content for content in boxes(rest) if content] + [part.partition("</answer>")[0] for part in rest.split("<answer>")[1:]]
    for content in dict.fromkeys(spans):
        yield _span(_clean(content), texts)
    if "\n" not in clean:
        yield _span(clean, texts)
    for head in _HEAD.finditer(clean):
        if not _DENIED.search(clean, max(0, head.start() - 60), head.start()):
            yield _list_at(clean, head.end())[0] or _of_text(_line_at(clean, head.end(), texts), texts)
    for line in _LINE.finditer(clean):
        letters, end = _list_at(clean, line.end())
        if _LINE_END.match(clean, end):
            yield letters
    yield from map(_letters, _RIGHT.finditer(clean))
    yield from map(_letters, _BOTH.finditer(clean))
    yield from map(_letters, _ALSO.finditer(clean))
    yield _option_line(clean, texts)


def _span(text: str, texts: Mapping[str, str]) -> set[str]:
    """The letters of a text that holds an answer and nothing else: "b", "(B)", "Option B", "B. Paris", "A or B", or an option's text."""
    text = text.strip(" .!\n")
    lead = re.match(_LEAD, text)
    letters, end = _list_at(text, lead.end() if lead else 0)
    if letters and not text[end:].strip(" .):"):
        return letters
    option = _OPTION.match(text) or _LOWER_OPTION.match(text)
    return _option(option, text[option.end() :], texts) if option else _of_text(text, texts)


def _option(option: re.Match[str], said: str, texts: Mapping[str, str]) -> set[str]:
    """The letter of "B. Paris", with every other letter that its text brings in, or stands for."""
    letters = _letters(option)
    if known := _of_text(said, texts):
        return letters | known
    if not said[:1].islower():  # "A: B", but not "(A) a, b"
        letters |= _list_at(said, 0)[0]
    return letters.union(*map(_letters, _MARKER.finditer(said)))


def _option_line(clean: str, texts: Mapping[str, str]) -> set[str]:
    """The letter of a first or last line like "B. Paris", unless lines of other letters make it a list of the options."""
    options = list(_OPTION.finditer(clean))
    if not options or len(set().union(*map(_letters, options))) > 1:
        return set()
    last_line = clean.rfind("\n") + 1
    letters: set[str] = set()
    for option in options[:1] + options[1:][-1:]:
        if option.start() in (0, last_line):
            letters |= _option(option, clean[option.end() :].partition("\n")[0], texts)
    return letters


def _by_text(choices: Iterable[str]) -> dict[str, str]:
    """Letters by the options' texts; a text that two options share stands for neither."""
    keys = [_clean(text).strip(" .\n").casefold() for text in choices]
    return {key: letter for key, letter in zip(keys, LETTERS, strict=False) if key and keys.count(key) == 1}


def _line_at(clean: str, at: int, texts: Mapping[str, str]) -> str:
    """The rest of a line, no further than the longest option's text needs: slicing whole lines made 100,000 heads take 30 s."""
    return clean[at : at + max(map(len, texts), default=-8) + 8].partition("\n")[0]


def _of_text(text: str, texts: Mapping[str, str]) -> set[str]:
    letter = texts.get(text.strip(" .\n").casefold()) if texts else None
    return {letter} if letter else set()


# --- the verifier


@dataclass(frozen=True)
class ChoiceVerifier:
    """Is the one letter that the completion names the letter in `column`?

    The reference is a letter A to J ("B", "(B)", "B. Paris"), or, where the row has a column `choices` with the options' texts, one
    of those texts; completions may then give the text, too. A text that is itself a letter is read as the letter. A whole number is
    an index only with `index_from=0` (or 1), else BAD_REFERENCE. `{"any_of": ["A", "C"]}` accepts either letter, one at a time.

    CORRECT; INCORRECT `mismatch`, or `ambiguous` when two letters are named; NO_ANSWER when none is; BAD_REFERENCE.

    >>> said = ["The answer is (B).", r"\\boxed{\\text{B}}", "B. Paris", "A or B", "A bird in the hand"]
    >>> [v.status.value for v in ChoiceVerifier().judge([Rollout(text, answer="B") for text in said])]
    ['correct', 'correct', 'correct', 'incorrect', 'no_answer']
    """

    column: str = "answer"
    choices: str = "choices"
    index_from: Literal[0, 1] | None = None

    VERSION: ClassVar[int] = 1
    PACKAGES: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for label, value in (("column", self.column), ("choices", self.choices)):
            if not isinstance(value, str) or not value:
                raise ConfigError(f"ChoiceVerifier: {label} must be the name of a data column, got {value!r}")
        if self.index_from not in (None, 0, 1):
            raise ConfigError(f"ChoiceVerifier: index_from must be 0, 1 or None (letters only), got {self.index_from!r}")

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({self.column})

    def judge(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        """One verdict per rollout, in order."""
        return judge_rows(rollouts, self.column, self._judge)

    def _judge(self, rollout: Rollout, reference: Any) -> Verdict:
        choices = _texts(rollout.column(self.choices))
        wanted = self._wanted(reference, choices)
        if wanted is None:
            what = f"column {self.column!r}: expected a letter A to J, got {reference!r:.60}"
            fix = "; set index_from=0 or 1 if it is the option's number" if str(reference).strip().isdigit() else ""
            return Verdict.of(Status.BAD_REFERENCE, "malformed_reference", what + fix)
        named = sorted(named_letters(rollout.completion, choices))
        if not named:
            return Verdict.of(Status.NO_ANSWER, "no_answer", "no letter stands where it can only be the answer")
        if len(named) > 1:
            return Verdict.of(Status.INCORRECT, "ambiguous", f"names {' and '.join(named)}", extracted=", ".join(named))
        if named[0] != wanted:
            return Verdict.of(Status.INCORRECT, "mismatch", f"expected {wanted}", extracted=named[0])
        return Verdict.of(Status.CORRECT, extracted=wanted)

    def _wanted(self, reference: Any, choices: Sequence[str]) -> str | None:
        """The reference's letter; None if it has none."""
        if self.index_from is not None and not isinstance(reference, bool) and str(reference).strip().isdecimal():
            number = int(str(reference)) - self.index_from
            return LETTERS[number] if 0 <= number < min(len(choices or LETTERS), len(LETTERS)) else None
        if not isinstance(reference, str):
            return None
        named = _span(_clean(reference), _by_text(choices))
        return named.pop() if len(named) == 1 and named <= set(LETTERS) else None


def _texts(column: Any) -> Sequence[str]:
    """The options' texts, if the column holds a list of them."""
    found = column.tolist() if hasattr(column, "tolist") else column
    return found if isinstance(found, list | tuple) and all(isinstance(text, str) for text in found) else ()
