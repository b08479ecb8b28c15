"""What docs/recipes.md takes from the code: the table of recipes and stacks, and the plot of gate weights.

`python docs/make_recipes.py` rewrites the table in the page (a test compares them); Sphinx draws the plot when it builds.
"""

from __future__ import annotations

import re
from pathlib import Path

from guerdon.backends.gates import CappedWeight, Clip, DivergenceMask, GammaWeight, MirroredSigmoid, SigmoidGate, Unclipped
from guerdon.backends.recipes import RECIPES

PAGE = Path(__file__).parent / "recipes.md"

GATES = {
    "no clip": Unclipped(),
    "clip 0.2, 0.28 (DAPO)": Clip(0.2, 0.28),
    "cap 2 (CISPO, whose default is 5)": CappedWeight(2.0),
    "sigmoid (SAPO)": SigmoidGate(),
    "gamma, of sequences (VESPO)": GammaWeight(),
    "TV mask at 0.15, prob 0.3 (DPPO)": DivergenceMask(),
    "mirrored sigmoid": MirroredSigmoid(),
}


def table() -> str:
    """Rows of the page's table."""
    rows = ["| recipe | TRL | OpenRLHF | verl |", "|---|---|---|---|"]
    for name, make in RECIPES.items():
        recipe = make()
        rows.append(f"| `{name}` | {recipe.trl().support} | {recipe.openrlhf().support} | {recipe.verl().support} |")
    return "\n".join(rows)


def draw(path: Path) -> None:
    """The gradient weight of each gate against the ratio, for A > 0 and A < 0."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams["svg.hashsalt"] = "guerdon"  # the same file for the same code
    ratios = [i / 200 for i in range(1, 601)]
    figure, plots = pyplot.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    for plot, advantage, title in zip(plots, (1.0, -1.0), ("A > 0", "A < 0"), strict=True):
        for name, gate in GATES.items():
            plot.plot(ratios, [gate.weight(ratio, advantage, 0.3) for ratio in ratios], label=name, linewidth=1.5)
        plot.axvline(1.0, color="0.8", linewidth=1, zorder=0)
        plot.set(title=title, xlabel="ratio r", xlim=(0, 3), ylim=(-0.5, 3.2))
    plots[0].set_ylabel("gradient weight")
    plots[1].legend(fontsize="small")
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(re.sub(r"\| recipe \|.*?(?=\n\n)", table(), page, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    main()
