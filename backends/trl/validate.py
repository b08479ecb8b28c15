"""Does TRL do what these settings say? `validate` names every known trap of TRL 1.16 before the first step.

It reads a configuration (or the arguments for one), the reward functions, the trainer's arguments, the data set's column names and, for
guerdon's functions, 64 of its rows. It does not load TRL, start a model or call a function or judge. What it is silent about it does not
promise.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from guerdon.backends.trl.findings import Case, Finding, Trap, gpu_visible
from guerdon.backends.trl.settings import Kind, read_settings
from guerdon.backends.trl.traps import TRAPS as SETTING_TRAPS
from guerdon.backends.trl.traps_batch import BATCH_TRAPS
from guerdon.backends.trl.traps_inputs import INPUT_TRAPS
from guerdon.backends.trl.traps_rows import ROW_TRAPS
from guerdon.errors import ConfigError, MissingInput

__all__ = ["TRAPS", "Finding", "Options", "Trap", "inspect", "validate"]

TRAPS: tuple[Trap, ...] = (*SETTING_TRAPS, *BATCH_TRAPS, *INPUT_TRAPS, *ROW_TRAPS)
"""Everything that is looked for, in the order of the findings."""


class Options(TypedDict, total=False):
    """The keywords of `validate` that a function's own `.validate(args, train_dataset, eval_dataset, ...)` takes."""

    num_processes: int | None
    trainer: Kind | None
    trainer_kwargs: Mapping[str, Any] | None
    gpu: bool | None
    ignore: Iterable[str]


def inspect(
    config: Any,
    *,
    funcs: Any = None,
    train_dataset: Any = None,
    num_processes: int | None = None,
    trainer: Kind | None = None,
    trainer_kwargs: Mapping[str, Any] | None = None,
    gpu: bool | None = None,
) -> tuple[Finding, ...]:
    """Every finding, notes too. Raises ConfigError only for arguments that it cannot read; issues no warning.

    `config` is a GRPOConfig, GMPOConfig or RLOOConfig, or a dict of the arguments for one, of which more can be said: in an object
    what was given and what is a default look alike. `trainer` ("grpo", "gmpo", "rloo") says whose arguments a dict holds. Of another
    trainer's configuration only functions, weights and columns are checked. `trainer_kwargs` are those of the trainer (`model=`,
    `reward_funcs=`, ...); `funcs` and `train_dataset` are taken from it where not given, `eval_dataset` always. A data set is anything
    with `column_names`, a list of rows, or a mapping of columns. `num_processes` is that of the launch (default: the configuration's,
    or WORLD_SIZE), `gpu` says whether there is one (default: asked of torch if it is loaded).

    Of a data set that has a length and rows by number, 64 from all over it are read for guerdon's functions: whether their columns hold
    anything, and whether its own verifiers (not those of the user's) can use the references. That ends within 10 seconds.

    >>> import guerdon.backends.trl
    >>> config = {"loss_type": "grpo", "importance_sampling_level": "sequence", "num_generations": 4, "use_cpu": True}
    >>> [finding.code for finding in inspect(config)]
    ['gspo-epsilon', 'ratio-is-one']
    """
    given = dict(trainer_kwargs or {})
    funcs = given.get("reward_funcs") if funcs is None else funcs
    dataset = given.get("train_dataset") if train_dataset is None else train_dataset
    case = Case(
        settings=read_settings(config, num_processes, trainer),
        funcs=funcs,
        dataset=dataset,
        columns=_columns(dataset),
        eval_columns=_columns(given.get("eval_dataset")),
        trainer=given,
        gpu=gpu_visible() if gpu is None else gpu,
    )
    return tuple(finding for trap in TRAPS for finding in trap.find(case))


def validate(
    config: Any,
    *,
    funcs: Any = None,
    train_dataset: Any = None,
    num_processes: int | None = None,
    trainer: Kind | None = None,
    trainer_kwargs: Mapping[str, Any] | None = None,
    gpu: bool | None = None,
    ignore: Iterable[str] = (),
) -> tuple[Finding, ...]:
    """Raise ConfigError that lists every error, and warn of the rest: arguments as in `inspect`. Returns the findings below an error.

    Notes are returned and not warned of. `ignore` names codes to pass over; one that does not exist raises ConfigError.
    Where columns are missing and nothing else is wrong, the ConfigError is a MissingInput.

    >>> validate({"loss_type": "dapoo", "use_cpu": True})
    Traceback (most recent call last):
    ...
    guerdon.errors.ConfigError: TRL would not do what these settings say:
    - [misspelt] loss_type='dapoo': expected one of grpo, dr_grpo, dapo, bnpo, cispo, sapo, luspo, vespo; did you mean 'dapo'?
    """
    passed = frozenset((ignore,) if isinstance(ignore, str) else ignore)
    if unknown := sorted(passed - {trap.code for trap in TRAPS}):
        raise ConfigError(f"ignore names {', '.join(unknown)}, which no trap is called; see guerdon.backends.trl.validate.TRAPS")
    found = inspect(
        config,
        funcs=funcs,
        train_dataset=train_dataset,
        num_processes=num_processes,
        trainer=trainer,
        trainer_kwargs=trainer_kwargs,
        gpu=gpu,
    )
    kept = [finding for finding in found if finding.code not in passed]
    if errors := [finding for finding in kept if finding.severity == "error"]:
        listed = "\n".join(f"- {finding}" for finding in errors)
        kind = MissingInput if all(finding.code == "missing-column" for finding in errors) else ConfigError
        raise kind(f"TRL would not do what these settings say:\n{listed}")
    for finding in kept:
        if finding.severity == "warning":
            warnings.warn(f"TRL: {finding}", UserWarning, stacklevel=2)
    return tuple(kept)


def _columns(dataset: Any) -> frozenset[str] | None:
    """The names of the columns; None where they cannot be known without reading the data."""
    names = getattr(dataset, "column_names", None)
    if names is None and isinstance(dataset, Mapping):
        names = None if any(hasattr(part, "column_names") for part in dataset.values()) else list(dataset)  # several data sets by name
    elif names is None and isinstance(dataset, Sequence) and dataset and isinstance(dataset[0], Mapping):
        names = list(dataset[0])
    return frozenset(names) if isinstance(names, list | tuple) else None
