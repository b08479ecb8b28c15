"""Sentences and words of a text, counted the way IFEval's English counts them, in linear time and without models.

`split_sentences` follows rules, not a trained model: where a full stop is ambiguous ("at 5 p.m. Monday") it can be wrong.
It does not split at line breaks: a heading or a list without full stops belongs to the sentence that follows it, as in IFEval.
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ["capital_words", "count_words", "split_sentences"]

_CLOSERS = "\"'”’»)\\]}*_`"
# A run of stops ends a sentence before white space or the end; the full-width and Indic ones end it anywhere. The lookbehind
# and the possessive quantifiers let each run be tried once: without them 16 kB of dots take 2.3 s, four times that per doubling.
_STOP = re.compile(rf"(?<![.!?…])[.!?…]++(?P<closers>[{_CLOSERS}]*+)(?=\s|$)|[。！？।॥؟۔]++[{_CLOSERS}」』]*+")
_LOOK_BACK = 24
_LIST_MARKER = re.compile(r"\n[ \t>*#_(-]*(?:\d{1,3}|[A-Za-z]|[ivxIVX]{2,4})$")
_WORD_BEFORE = re.compile(r"[^\s(\[{\"'“‘*_]*$")
_ACRONYM = re.compile(r"(?:\w\.)+\w|Ph\.D")
_FOLLOWING = re.compile(r"(?P<gap>\s*+)[\"'“‘«(\[*_#>-]*+\s?(?P<word>\w[\w'’]{0,39}|\S)")
_JOINED = re.compile(r"\w+(?:[-./&'’]\w+)*")
_ENDING = re.compile(r"['’](?:s|m|d|ll|re|ve)$", re.IGNORECASE)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NEVER = _words(
    "adm approx attn brig capt cf cmdr col cpl dr e.g eg esp fr gen gov hon i.e ie lt maj messrs mlle mme mr mrs ms "
    "mt mx nr pres prof rep reps rev sen sens sgt supt viz vs"
)
"""Abbreviations that go before a name or an explanation: their full stop never ends a sentence."""
_BEFORE_A_NUMBER = _words("ch fig figs no nos op p pp sec vol vols")
"""Abbreviations only when a number follows: "no. 5" goes on, "I said no." ends."""
_SELDOM = _words(
    "a.m al apr apt assn aug ave bldg blvd bros co corp dec dept dist div est etc ext feb ft ga hr hrs inc jan jr jul jun lb lbs "
    "ltd mar max mfg min misc nov oct oz p.m ph.d rd sep sept sq sr st tel u.k u.s u.s.a univ wk yr yrs"
)
"""Abbreviations that may also end a sentence: they do when a word follows that usually starts one."""
_STARTERS = _words(
    "a after all also although an and another are as at because before both but by can did do does during each even every finally first "
    "for from furthermore he her here his how however i if in is it its let many meanwhile moreover most my next no nor not now on once "
    "one or our please she since so some such that the their then there therefore these they this those though through thus to today "
    "unlike we what when where which while who why with without yes yet you your"
)


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, in order, white space around them removed.

    A sentence ends at `.`, `!`, `?` or an ellipsis (with closing quotes, brackets and emphasis) before white space, and at
    the full-width or Indic stops anywhere. Abbreviations, initials, decimals, domains and list markers end none, nor does a
    quoted question that runs on in lower case; a piece without a letter or digit belongs to the sentence before it.

    >>> split_sentences("Dr. J. K. Smith paid $3.50. Why?! He left... and came back.")
    ['Dr. J. K. Smith paid $3.50.', 'Why?!', 'He left... and came back.']
    """
    spans: list[tuple[int, int]] = []
    start = 0
    for stop in (*(s.end() for s in _STOP.finditer(text) if _ends_sentence(text, s)), len(text)):
        if any(map(str.isalnum, text[start:stop])):
            spans.append((start, stop))
        elif spans:
            spans[-1] = (spans[-1][0], stop)
        start = stop
    return [text[start:stop].strip() for start, stop in spans]


def count_words(text: str) -> int:
    r"""The number of words, IFEval's way: maximal runs of `\w`, so a hyphen or an apostrophe separates two.

    Combining marks are part of their word: without that, as with `re` alone, a Hindi or Tamil text has twice its words.

    >>> count_words("It's a well-known fact.")
    6
    """
    if not text.isascii():
        text = text.translate({ord(char): None for char in set(text) if unicodedata.category(char)[0] == "M"})
    return len(re.findall(r"\w+", text))


def capital_words(text: str) -> int:
    """The number of words whose letters are all capitals. Hyphens, slashes, dots and apostrophes join; a contraction or
    possessive ending does not count against the word.

    >>> capital_words("NASA's CO-OP is A1, says O'Brien; I'm not. DON'T!")
    5
    """
    return sum(_ENDING.sub("", word).isupper() for word in _JOINED.findall(text))


def _ends_sentence(text: str, stop: re.Match[str]) -> bool:
    """Whether a run of stops ends a sentence, by the word before it and the word after it."""
    closers = stop["closers"]
    if closers is None:  # full-width or Indic
        return True
    following = _FOLLOWING.match(text, stop.end())
    if following is None:  # nothing follows
        return True
    mark, word = stop[0].removesuffix(closers), following["word"]
    new_line = "\n" in following["gap"]
    if closers.strip("*_`") and word[0].islower() and not new_line:  # "Why?" he asked.
        return False
    if mark == "…" or mark.startswith(".."):
        return not word[0].islower()
    if mark != ".":
        return True
    before = text[max(0, stop.start() - _LOOK_BACK) : stop.start()]
    if _LIST_MARKER.search(before if stop.start() > _LOOK_BACK else "\n" + before):
        return False
    return _full_stop_ends(_WORD_BEFORE.findall(before)[0], word, new_line)


def _full_stop_ends(before: str, word: str, new_line: bool) -> bool:
    """Whether a single full stop ends a sentence: after an abbreviation or an initial only before a usual first word."""
    lowered = before.lower()
    initial = len(before) == 1 and before.isupper()
    if initial or lowered in _SELDOM or _ACRONYM.fullmatch(before):
        return lowered not in _NEVER and (new_line or (word[0].isupper() and word.lower() in _STARTERS))
    if lowered in _BEFORE_A_NUMBER:
        return not word[0].isdigit()
    return lowered not in _NEVER
