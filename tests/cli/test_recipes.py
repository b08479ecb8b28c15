"""`guerdon recipes`."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from guerdon.backends.recipes import RECIPES

Run = Callable[..., Result]


def test_lists_every_recipe_with_its_stacks(guerdon: Run) -> None:
    lines = [line.split() for line in guerdon("recipes").stdout.splitlines()]
    assert set(RECIPES) <= {line[0] for line in lines if line}
    assert ["gspo", "native", "native", "native"] in lines


@pytest.mark.parametrize("name", RECIPES)
def test_explains_each(guerdon: Run, name: str) -> None:
    text = guerdon("recipes", name).stdout
    for part in ("gate ", "options ", "needs ", "use it ", "rather not ", "openrlhf "):
        assert part in text


def test_explanation_as_json(guerdon: Run) -> None:
    found = json.loads(guerdon("recipes", "Dr.GRPO", "--json").stdout)
    assert (found["name"], found["options"]["length"], found["stacks"]["trl"]["settings"]["loss_type"]) == ("dr_grpo", 3000, "dr_grpo")


@pytest.mark.parametrize(
    ("stack", "words"),
    [("trl", "loss_type='cispo'"), ("verl", "policy_loss.loss_mode=cispo"), ("openrlhf", "--algo.advantage.estimator group_norm")],
)
def test_settings_of_one_stack_are_ready_to_paste(guerdon: Run, stack: str, words: str) -> None:
    assert words in guerdon("recipes", "cispo", "--stack", stack).stdout


def test_gaps_are_said_beside_the_settings(guerdon: Run) -> None:
    assert "no dynamic sampling" in guerdon("recipes", "dapo", "--stack", "trl").stderr


def test_advice(guerdon: Run) -> None:
    assert "Several rewards of unequal scale?" in guerdon("recipes", "--advise").stdout
    assert {each["about"] for each in json.loads(guerdon("recipes", "--advise", "--json").stdout)} >= {
        "long",
        "moe",
        "off-policy",
        "rewards",
        "noise",
        "memory",
    }


def test_an_unknown_name_is_one_line_with_the_nearest(refused: Callable[..., str]) -> None:
    assert "did you mean gspo" in refused("recipes", "gspoo")
    assert "needs the NAME" in refused("recipes", "--stack", "trl")
    assert "takes no NAME" in refused("recipes", "dapo", "--advise")
