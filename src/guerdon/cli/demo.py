"""`guerdon demo`: recorded rollouts scored, filtered, explained and turned into advantages, in a few seconds.

The 64 GSM8K prompts with 8 rollouts each are bundled, and chosen for an even spread of pass rates: see `guerdon/data/README.md`.
Nothing is generated and no model is run. Lengths are counted in words, which stand in for tokens here and nowhere else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from guerdon.filters import Decision, Goldilocks, PassRate
from guerdon.types import Rollout, Status

if TYPE_CHECKING:
    from guerdon.cli.groups import Group
    from guerdon.rewards import Term
    from guerdon.rewards.scores import Scores

__all__ = ["bundled_groups", "demo", "demo_reward", "words"]

BUNDLED = "gsm8k_rollouts.jsonl.gz"

CODE = """\
reward = (
    1.0 * R.math_equal()
    + 0.2 * R.boxed_format()
    + 0.5 * R.soft_overlong(max_tokens=250, cache=100, tokenizer=words)   # words for tokens
)"""


def words(text: str) -> list[str]:
    """The words of a text between blanks: a tokenizer for the demonstration, which has no model."""
    return text.split()


def demo_reward() -> Term:
    """The reward that `CODE` shows."""
    import guerdon.rewards as R

    return 1.0 * R.math_equal() + 0.2 * R.boxed_format() + 0.5 * R.soft_overlong(max_tokens=250, cache=100, tokenizer=words)


def bundled_groups() -> list[Group]:
    """The bundled prompts with their rollouts."""
    from importlib.resources import as_file, files

    from guerdon.cli.files import Source
    from guerdon.cli.groups import BadRows, read_groups

    with as_file(files("guerdon") / "data" / BUNDLED) as path, closing(Source(str(path))) as source:
        groups = read_groups(source, {}, BadRows(source.label, strict=True), limit=None, whole=True, gather=False)[1]
        return list(groups)


@click.command()
def demo() -> None:
    """Score, filter and explain bundled rollouts of GSM8K."""
    from guerdon.cli.tables import print_rich

    groups = bundled_groups()
    reward = demo_reward()
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    scores = reward.score(rollouts)
    rates = [PassRate.of(part) for part in _by_group(scores.outcome_N.tolist(), groups)]
    rule = Goldilocks()
    kept = [i for i, rate in enumerate(rates) if rule.decide(rate) is Decision.KEEP]
    for title, content in (
        (f"{len(groups)} GSM8K prompts, {len(rollouts)} recorded rollouts of 8 models, one reward", [CODE]),
        ("What each term gave", [_components(scores)]),
        ("Against the recorded labels", [_agreement(rollouts, scores)]),
        ("Which prompts are worth training on: Goldilocks(0.2, 0.8)", _goldilocks(rates, rule)),
        ("One rollout explained", [_explained(reward, rollouts, scores)]),
        ("One group under three estimators", _advantages(reward, groups, kept)),
        ("Next", [_NEXT]),
    ):
        print_rich(_heading(title), *content)


_NEXT = """\
guerdon score rollouts.jsonl --reward my_reward.py:reward -o scores.jsonl   your own rollouts
guerdon filter rollouts.jsonl --reward my_reward.py:reward -o kept.jsonl    the prompts to keep
guerdon doctor                                                              what is installed here"""


def _heading(title: str) -> Any:
    from rich.text import Text

    return Text(f"\n{title}", style="bold")


def _by_group(values: Sequence[Any], groups: Sequence[Group]) -> list[Sequence[Any]]:
    parts, start = [], 0
    for group in groups:
        parts.append(values[start : start + len(group.rollouts)])
        start += len(group.rollouts)
    return parts


def _components(scores: Scores) -> Any:
    from guerdon.cli.summary import Summary

    summary = Summary()
    summary.add(scores)
    return summary.table()


def _agreement(rollouts: Sequence[Rollout], scores: Scores) -> str:
    """Where the publishers of the rollouts graded them, whether math_equal says the same."""
    graded = [(r, v) for r, v in zip(rollouts, scores.outcomes, strict=True) if r.columns["label"] is not None]
    differ = [(r, v) for r, v in graded if (v.status is Status.CORRECT) is not r.columns["label"]]
    lines = [f"{len(graded) - len(differ)} of the {len(graded)} rollouts that their publishers graded get the same grade."]
    for r, v in differ[:3]:
        label = "right" if r.columns["label"] else "wrong"
        lines.append(f"  {r.id} {r.columns['source']}: label {label}, here {v.status}: {v.extracted!r}, answer {r.answer!r}")
    return "\n".join(lines)


def _goldilocks(rates: Sequence[PassRate], rule: Goldilocks) -> list[Any]:
    from guerdon.cli.tables import histogram

    decisions = Counter(rule.decide(rate) for rate in rates)
    kept = Counter((rate.passed, rate.total) for rate in rates if rule.decide(rate) is Decision.KEEP)
    return [
        histogram(Counter((rate.passed, rate.total) for rate in rates), kept),
        f"kept {decisions[Decision.KEEP]}, too easy {decisions[Decision.TOO_EASY]}, too hard {decisions[Decision.TOO_HARD]}, "
        f"unscorable {decisions[Decision.UNSCORABLE]}. The slice spreads its prompts evenly over the pass rates on purpose.",
    ]


def _explained(reward: Term, rollouts: Sequence[Rollout], scores: Scores) -> str:
    """The first rollout that is right, and whose length costs it something."""
    outcomes, totals = scores.outcome_N.tolist(), scores.total_N.tolist()
    row = next((i for i, outcome in enumerate(outcomes) if outcome == 1.0 and totals[i] < 1.2 and totals[i] not in (1.0, 0.0)), 0)
    rollout = rollouts[row]
    ending = " ".join(rollout.completion.split())[-120:]
    head = f"{rollout.columns['source']} on {rollout.id}, answer {rollout.answer}: ...{ending}"
    return f"{head}\n\nreward.explain(rollout)\n{reward.explanation(rollout)}"


def _advantages(reward: Term, groups: Sequence[Group], kept: Sequence[int]) -> list[Any]:
    """The kept group whose totals differ most: what each estimator makes of the same components."""
    from guerdon.cli.tables import table
    from guerdon.rewards.advantages import GDPO, GOPO, GRPO

    group = max((groups[i] for i in kept), key=lambda g: len(set(reward(g.rollouts))))
    scores = reward.score(group.rollouts)
    columns = [scores.advantages(spec).tolist() for spec in (GRPO, GDPO, GOPO)]
    rows = [
        [
            str(r.columns["source"]).rpartition("/")[2],
            *(f"{v:.2f}" for v in scores.values_NK[i].tolist()),
            f"{scores.total_N[i]:.2f}",
            *(f"{c[i]:+.2f}" for c in columns),
        ]
        for i, r in enumerate(group.rollouts)
    ]
    return [
        table([str(group.rollouts[0].id), *scores.names, "total", "GRPO", "GDPO", "GOPO"], rows),
        "GRPO normalises the total, GDPO each term before it is weighted, GOPO keeps only the ranks.",
    ]
