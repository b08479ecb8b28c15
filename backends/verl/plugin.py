"""The entry point of group `verl.plugins`: verl imports it in every process, and guerdon's advantage estimators are registered.

Does nothing where verl is not being imported. `VERL_USE_EXTERNAL_MODULES=guerdon.backends.verl.plugin` has the same effect.
"""

from __future__ import annotations

import logging
import sys

__all__: list[str] = []

if "verl" in sys.modules:
    try:
        from guerdon.backends.verl.estimators import register

        register()
    except Exception as error:  # verl logs it at DEBUG, and the run would end with an unknown estimator
        logging.getLogger("guerdon").warning("guerdon's advantage estimators are not in verl: %s: %s", type(error).__name__, error)
        raise
