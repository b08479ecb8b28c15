"""`guerdon recipes`: which algorithms there are, what one is made of, when to use it, and which training stacks run it. No torch."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from guerdon.errors import ConfigError

if TYPE_CHECKING:
    from guerdon.backends.composition import Recipe
    from guerdon.backends.translate import Translation

__all__ = ["recipes"]

NEEDS = {
    "rollout_logp_NT": "log-probabilities of the sampling engine",
    "ref_logp_NT": "a reference model",
    "truncated_N": "whether a completion was cut",
    "entropy_NT": "entropies of tokens",
    "keep_NT": "a mask computed beside the forward pass",
    "group_size": "the group size",
    "length": "a constant length",
}


@click.command()
@click.argument("name", required=False)
@click.option("--advise", is_flag=True, help="Answer the usual questions: which recipe for what.")
@click.option("--stack", type=click.Choice(["trl", "openrlhf", "verl"]), help="Print the settings of NAME for one training stack.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def recipes(name: str | None, advise: bool, stack: str | None, as_json: bool) -> None:
    """List the algorithms guerdon has, or explain one: axes, formula, defaults, when to use it, which stacks run it."""
    if stack and not name:
        raise click.UsageError("--stack needs the NAME of a recipe")
    if advise and name:
        raise click.UsageError("--advise takes no NAME")
    if advise:
        _advise(as_json)
    elif name is None:
        _list(as_json)
    elif stack:
        _settings(_recipe(name), stack, as_json)
    else:
        _explain(name, as_json)


def _recipe(name: str) -> Recipe:
    import difflib

    from guerdon.backends.recipes import RECIPES

    wanted = name.lower().replace("-", "_").replace(".", "_")
    if wanted not in RECIPES:
        near = difflib.get_close_matches(wanted, RECIPES, 1)
        raise ConfigError(f"no recipe {name!r}{f', did you mean {near[0]}' if near else ''}; there are {', '.join(RECIPES)}")
    return RECIPES[wanted]()


def _stacks(recipe: Recipe) -> dict[str, Translation]:
    return {"trl": recipe.trl(), "openrlhf": recipe.openrlhf(), "verl": recipe.verl()}


def _list(as_json: bool) -> None:
    from guerdon.backends.recipes import RECIPES

    made = {name: (_paragraphs(make)[0], _stacks(make())) for name, make in RECIPES.items()}
    if as_json:
        rows = [{"name": n, "formula": text, **{s: t.support for s, t in stacks.items()}} for n, (text, stacks) in made.items()]
        click.echo(json.dumps(rows))
        return
    from guerdon.cli.tables import print_rich, table

    rows_ = [[name, *(each.support for each in stacks.values())] for name, (_, stacks) in made.items()]
    print_rich(table(["recipe", "TRL", "OpenRLHF", "verl"], rows_, left=(0, 1, 2, 3)))
    print_rich("native: its settings say all of it; partial: something beside the loss is missing; guerdon only: the loss is.")
    print_rich("guerdon recipes NAME explains one, guerdon recipes --advise which to take.")


def _paragraphs(make: Any) -> list[str]:
    """The docstring, to be wrapped again."""
    return [paragraph.replace("\n", " ") for paragraph in (inspect.getdoc(make) or "").split("\n\n")]


def _explain(name: str, as_json: bool) -> None:
    from guerdon.backends.advice import ADVICE
    from guerdon.backends.recipes import RECIPES

    recipe = _recipe(name)
    make, stacks = RECIPES[recipe.name], _stacks(recipe)
    text, advice = "\n\n".join(_paragraphs(make)), ADVICE[recipe.name]
    defaults = {each.name: each.default for each in inspect.signature(make).parameters.values() if each.name != "base"}
    needs = [NEEDS[each] for each in sorted(recipe.reads)]
    if as_json:
        about = {s: {"support": t.support, "settings": dict(t.settings), "gaps": [str(g) for g in t.gaps]} for s, t in stacks.items()}
        axes = dict(line.split(maxsplit=1) for line in recipe.describe().splitlines())
        whole = {"name": recipe.name, "text": text, "axes": axes, "options": defaults, "needs": needs}
        click.echo(json.dumps({**whole, "use": advice.use, "avoid": advice.avoid, "stacks": about}, default=str))
        return
    from guerdon.cli.tables import print_rich

    print_rich(recipe.name, "", text, "", recipe.describe(), "")
    print_rich(f"options     {', '.join(f'{key}={value!r}' for key, value in defaults.items())}")
    print_rich(f"needs       {', '.join(needs) or 'nothing but log-probabilities and advantages'}")
    print_rich(f"use it      {advice.use}", f"rather not  {advice.avoid}", "")
    print_rich(_stack_text(stacks))


def _stack_text(stacks: Mapping[str, Translation]) -> str:
    lines = []
    for stack, translation in stacks.items():
        lines.append(f"{stack:<11} {translation.support}")
        lines += [f"            {'differs' if gap.small else 'missing'}  {gap}" for gap in translation.gaps]
    return "\n".join(lines)


def _settings(recipe: Recipe, stack: str, as_json: bool) -> None:
    translation = _stacks(recipe)[stack]
    if as_json:
        click.echo(
            json.dumps({"target": translation.target, "settings": dict(translation.settings), "gaps": [str(g) for g in translation.gaps]})
        )
        return
    for gap in translation.gaps:
        click.echo(f"# {'differs' if gap.small else 'missing'}: {gap}", err=True)
    if stack == "trl":
        click.echo(f"{translation.target.rpartition('.')[2]}(")
        for key, value in translation.settings.items():
            click.echo(f"    {key}={value!r},")
        click.echo(")")
    else:
        import shlex

        click.echo(shlex.join(translation.argv()))


def _advise(as_json: bool) -> None:
    from dataclasses import asdict

    from guerdon.backends.advice import QUESTIONS

    if as_json:
        click.echo(json.dumps([asdict(question) for question in QUESTIONS]))
        return
    from guerdon.cli.tables import print_rich

    for question in QUESTIONS:
        print_rich(question.ask, f"  {', '.join(question.recipes)}", f"  {question.answer}", "")
