"""Verbalized sampling: ask for several answers with their probabilities in one completion, and sample among those.

Zhang, Yu, Chong et al., 2025 (arXiv:2510.01171): more diverse than as many separate samples of an aligned model. For prompts, data
generation and evaluation. **Not for training on as they are**: the candidates were sampled under another prompt, so they are off-policy for
the task's; score their log-probabilities again under the task prompt and correct with a rollout weight, or leave GRPO groups alone.
No model is called here.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from guerdon.errors import ConfigError

__all__ = ["Candidate", "build_prompt", "parse", "sample", "tail"]

MARK = re.compile(r"\(probability:", re.IGNORECASE)
LONGEST = 32
"""A probability has no more characters than this: what stands between the mark and the next bracket is otherwise not read."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One verbalized answer, and its share of the probability of all that were kept."""

    text: str
    probability: float


def build_prompt(task: str, k: int = 5, threshold: float | None = None) -> str:
    """The task with the request for k answers and their probabilities, in the format that `parse` reads.

    `threshold` asks for answers from the tail, each of lower probability than it (the paper's 0.10 for creative tasks).

    >>> print(build_prompt("Tell a joke about coffee.", k=2, threshold=0.1))
    Tell a joke about coffee.
    <BLANKLINE>
    Give 2 different responses, each with a probability below 0.1. Write each on lines of its own as
    [response] (probability: 0.00)
    and nothing else.
    """
    if k < 1 or (threshold is not None and not 0 < threshold < 1):
        raise ConfigError(f"build_prompt: k expects at least 1 and threshold a probability or None, got k={k}, threshold={threshold}")
    which = "with its probability among all that you could give" if threshold is None else f"with a probability below {threshold:g}"
    form = "Write each on lines of its own as\n[response] (probability: 0.00)\nand nothing else."
    return f"{task}\n\nGive {k} different responses, each {which}. {form}"


def parse(text: str, k: int | None = None) -> list[Candidate]:
    """The candidates of a completion, in order, with probabilities renormalised to sum 1.

    Reads `[response] (probability: 0.3)`; a response may span lines and hold brackets. A candidate is left out if its probability is no
    plain number, is NaN, negative, 0 or above 1, or if its response is empty; text around candidates is not read. Of more than `k`
    the first k are kept. Nothing found gives an empty list. Linear in the text, whatever it holds.

    >>> parse("[a] (probability: 0.5)\\n[b] (probability: nan)\\n[c] (probability: 1.5)\\n[d] (probability: 0.25)")
    [Candidate(text='a', probability=0.6666666666666666), Candidate(text='d', probability=0.3333333333333333)]
    """
    found: list[tuple[str, float]] = []
    head, *tails = MARK.split(text)
    for following in tails:
        end = following.find(")", 0, LONGEST)
        response, probability = _response(head), _probability(following[:end] if end >= 0 else "")
        if response and probability is not None:
            found.append((response, probability))
        head = following[end + 1 :] if end >= 0 else following
    kept = found[:k]
    total = math.fsum(probability for _, probability in kept)
    return [Candidate(response, probability / total) for response, probability in kept]


def _response(before: str) -> str:
    """What stands in the brackets that end just before a mark."""
    before = before.rstrip()
    if not before.endswith("]"):
        return ""
    depth = 0
    for place in range(len(before) - 1, -1, -1):
        depth += (before[place] == "]") - (before[place] == "[")
        if depth == 0:
            return before[place + 1 : -1].strip()
    return ""  # closed more often than opened


def _probability(text: str) -> float | None:
    text = text.strip()
    share = text.endswith("%")
    text = text.removesuffix("%").strip()
    if not (text.isascii() and text.replace(".", "", 1).isdigit()):  # float() takes nan, inf, 1e9, 1_0 and digits of other scripts
        return None
    value = float(text) / (100 if share else 1)
    return value if 0 < value <= 1 else None


def tail(candidates: Sequence[Candidate], threshold: float) -> list[Candidate]:
    """The candidates whose probability is below the threshold, renormalised: `parse` first, so these are shares.

    >>> tail([Candidate("a", 0.875), Candidate("b", 0.0625), Candidate("c", 0.0625)], 0.1)
    [Candidate(text='b', probability=0.5), Candidate(text='c', probability=0.5)]
    """
    rare = [each for each in candidates if each.probability < threshold]
    total = math.fsum(each.probability for each in rare)
    return [Candidate(each.text, each.probability / total) for each in rare]


def sample(candidates: Sequence[Candidate], seed: int) -> Candidate:
    """One of them, by probability; the same for the same seed."""
    if not candidates:
        raise ConfigError("sample: no candidates, the completion held none in the format asked for")
    return random.Random(seed).choices(candidates, [each.probability for each in candidates])[0]
