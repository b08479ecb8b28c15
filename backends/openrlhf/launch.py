"""Experimental: `python -m guerdon.backends.openrlhf.launch --guerdon.reward my.py:reward --guerdon.advantage gdpo <OpenRLHF's flags>`.

Starts Ray with guerdon's hook in every worker, then runs `openrlhf.cli.train_ppo_ray` with the remaining flags. It trains nothing itself
and changes none of those flags.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from guerdon.backends.door import as_reward, require_outcome
from guerdon.backends.openrlhf.launcher import HOOK, SETTINGS, VERSION, Settings
from guerdon.errors import ConfigError, GuerdonError

__all__ = ["main", "runtime_env", "split_args"]

TRAINER = "openrlhf.cli.train_ppo_ray"
_PASSED_ON = {"TOKENIZERS_PARALLELISM": "true", "NCCL_DEBUG": "WARN", "RAY_ENABLE_ZERO_COPY_TORCH_TENSORS": "1"}
"""What train_ppo_ray sets when it starts Ray itself."""


def split_args(argv: Sequence[str]) -> tuple[Settings, list[str]]:
    """guerdon's flags, checked and taken out, and OpenRLHF's."""
    parser = argparse.ArgumentParser(prog="python -m guerdon.backends.openrlhf.launch", description=__doc__, allow_abbrev=False)
    parser.add_argument("--guerdon.reward", required=True, metavar="FILE.py:NAME", help="the reward that the reward file or agent uses")
    parser.add_argument("--guerdon.advantage", default="gdpo", metavar="SPEC", help="gdpo, gopo, ..., with axes: gdpo,whiten=token")
    own, rest = parser.parse_known_args(argv)
    options = vars(own)
    reward = as_reward(options["guerdon.reward"], "--guerdon.reward")
    require_outcome(reward, "--guerdon.reward")
    return Settings.of(reward, options["guerdon.advantage"]), rest


def runtime_env(settings: Settings) -> dict[str, Any]:
    """Ray's runtime environment: the hook, the settings, and what OpenRLHF would have set."""
    passed_on = {name: os.environ.get(name, default) for name, default in _PASSED_ON.items()}
    return {"worker_process_setup_hook": HOOK, "env_vars": {**passed_on, SETTINGS: settings.text()}}


def _check_version() -> None:
    try:
        found = version("openrlhf")
    except PackageNotFoundError:
        raise ConfigError(f"the launcher needs OpenRLHF {VERSION}x in this environment: pip install 'openrlhf[vllm]=={VERSION}*'") from None
    if not found.startswith(VERSION):
        raise ConfigError(f"the launcher patches OpenRLHF {VERSION}x, found {found}")


def main(argv: Sequence[str] | None = None) -> None:
    """Start the training. Exits with a message, before Ray is started, where something is configured wrongly."""
    import runpy

    try:
        settings, rest = split_args(sys.argv[1:] if argv is None else argv)
        _check_version()
    except GuerdonError as error:
        sys.exit(f"error: {error}")
    import ray

    ray.init(runtime_env=runtime_env(settings))
    sys.argv = [TRAINER, *rest]
    runpy.run_module(TRAINER, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
