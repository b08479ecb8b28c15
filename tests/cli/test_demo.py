"""`guerdon demo` and the data it shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

import guerdon.rewards as R
from guerdon.cli.demo import BUNDLED, CODE, bundled_groups, demo_reward, words
from guerdon.cli.scoring import load_reward
from guerdon.rewards.components import flatten

DATA = Path(__file__).resolve().parents[2] / "src" / "guerdon" / "data"


@pytest.fixture(scope="module")
def output() -> str:
    from click.testing import CliRunner

    from guerdon.cli import main

    result = CliRunner().invoke(main, ["demo"])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_code_shown_is_the_reward_used() -> None:
    names: dict[str, object] = {"R": R, "words": words}
    exec(CODE, names)
    assert names["reward"] == demo_reward()


def test_the_example_is_the_reward_of_the_demonstration() -> None:
    example = load_reward(f"{DATA.parents[2] / 'examples' / 'gsm8k_reward.py'}:reward")
    names = [(component.name, component.weight) for component in flatten(example)]
    assert names == [(component.name, component.weight) for component in flatten(demo_reward())]


def test_it_fits_100_columns(output: str) -> None:
    assert max(map(len, output.splitlines())) <= 100


def test_it_agrees_with_the_recorded_labels(output: str) -> None:
    line = next(line for line in output.splitlines() if "publishers graded" in line)
    agree, graded = (int(word) for word in line.split() if word.isdigit())
    assert graded == 384
    assert agree >= 380


@pytest.mark.parametrize("part", ["math_equal", "soft_overlong", "4 of 8", "kept ", "reward.explain(rollout)", "GRPO", "GDPO", "GOPO"])
def test_every_part_is_shown(output: str, part: str) -> None:
    assert part in output


def test_it_says_that_words_stand_in_for_tokens(output: str) -> None:
    assert "words for tokens" in output


def test_the_slice_is_small_whole_and_licensed() -> None:
    groups = bundled_groups()
    assert (DATA / BUNDLED).stat().st_size < 200 * 1024
    assert [len(group.rollouts) for group in groups] == [8] * 64
    assert len({group.rollouts[0].id for group in groups}) == 64
    licences = Counter(rollout.columns["licence"] for group in groups for rollout in group.rollouts)
    assert licences == {"MIT": 384, "Apache-2.0": 128}


def test_the_notice_names_every_source() -> None:
    notice = (DATA / "NOTICE.txt").read_text()
    sources = {rollout.columns["source"].partition("/")[0] for group in bundled_groups() for rollout in group.rollouts}
    assert all(f"{source}/*" in notice for source in sources)


def test_it_is_repeatable(output: str, guerdon: Callable[..., Result]) -> None:
    without_times = [line for line in output.splitlines() if " ms" not in line]
    assert [line for line in guerdon("demo").stdout.splitlines() if " ms" not in line] == without_times
