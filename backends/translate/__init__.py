"""From a recipe to the settings of a training stack, and what those settings cannot say. Imports none of the stacks.

    settings = recipe.trl()                    # a Translation
    GRPOConfig(**settings.exact())             # ConfigError that lists the gaps, if there are any
    GRPOConfig(**settings.settings)            # as near as TRL comes

One module a stack, one function an axis: what it says of the axis goes into the settings, what it cannot say becomes a `Gap`. Checked
against TRL 1.16, OpenRLHF 0.11 and verl 0.9: their parsers accept every translation, and their losses agree with guerdon's.
"""

from guerdon.backends.translate.openrlhf import to_openrlhf
from guerdon.backends.translate.translation import Gap, Translation
from guerdon.backends.translate.trl import to_trl
from guerdon.backends.translate.verl import to_verl

__all__ = ["Gap", "Translation", "to_openrlhf", "to_trl", "to_verl"]
