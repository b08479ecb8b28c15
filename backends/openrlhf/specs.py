"""Advantage specs as text (`gdpo`, `gdpo,whiten=token`), and which of them OpenRLHF's doors can carry out."""

from __future__ import annotations

from dataclasses import fields, replace

from guerdon.errors import ConfigError
from guerdon.rewards.advantages import SPECS, AdvantageSpec

__all__ = ["spec_of", "within_group"]

_READ = {"ddof": int, "eps": float, "whiten_eps": float, "rank_span": float}


def spec_of(value: AdvantageSpec | str, where: str) -> AdvantageSpec:
    """The spec itself, or the one a text names: a name in `guerdon.rewards.advantages.SPECS`, then axes to change.

    >>> spec_of("gdpo,whiten=none,eps=1e-6", "aggregate").eps
    1e-06
    """
    if isinstance(value, AdvantageSpec):
        return value
    if not isinstance(value, str):
        raise ConfigError(f"{where}: expected an AdvantageSpec or text such as 'gdpo', got {type(value).__name__}")
    name, *axes = (part.strip() for part in value.split(","))
    if name not in SPECS:
        raise ConfigError(f"{where}: no advantage is called {name!r}; expected one of {', '.join(SPECS)}")
    changes = {}
    for axis in axes:
        key, equals, text = axis.partition("=")
        if not equals or key not in {field.name for field in fields(AdvantageSpec)}:
            raise ConfigError(f"{where}: expected axis=value, such as whiten=none, got {axis!r} in {value!r}")
        try:
            changes[key] = _READ.get(key, str)(text)
        except ValueError:
            raise ConfigError(f"{where}: {key} expects a number, got {text!r} in {value!r}") from None
    return replace(SPECS[name], **changes)


def within_group(spec: AdvantageSpec, where: str) -> AdvantageSpec:
    """`spec`, or ConfigError if it needs the rest of the batch, which one group does not know."""
    if spec.whiten != "none":
        raise ConfigError(
            f"{where}: whiten={spec.whiten!r} is a step over the whole batch, and the agent sees one group: use "
            "dataclasses.replace(spec, whiten='none') (as text 'gdpo,whiten=none') and --algo.advantage.estimator reinforce, which whitens "
            "over the batch's tokens, or the launcher (python -m guerdon.backends.openrlhf.launch)"
        )
    if spec.center == "batch" or spec.scale in ("batch", "batch_centered"):
        raise ConfigError(
            f"{where}: center={spec.center!r}, scale={spec.scale!r} needs the whole batch, and the agent sees one group: use the launcher "
            "(python -m guerdon.backends.openrlhf.launch)"
        )
    return spec
