"""When and how the reference policy follows the trained one: hard copies (DeepSeek-R1) or exponential averages."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from guerdon.backends.axes import ReferenceSync

__all__ = ["is_due", "sync"]


def is_due(schedule: ReferenceSync | None, step: int) -> bool:
    """Whether the reference is to be updated after this optimizer step, counted from 1.

    >>> [step for step in range(1001) if is_due(ReferenceSync(every=400), step)]
    [400, 800]
    """
    return schedule is not None and step > 0 and step % schedule.every == 0


@torch.no_grad()
def sync(schedule: ReferenceSync, reference: Iterable[Tensor], policy: Iterable[Tensor]) -> None:
    """reference <- (1 - mix) reference + mix policy, in place, parameter by parameter; mix 1 copies exactly.

    With adapters (LoRA) give the adapter's weights and a frozen copy of them. Right after a hard copy KL is 0, and so are k2's and k3's
    gradients.
    """
    for kept, live in zip(reference, policy, strict=True):
        if schedule.mix == 1:
            kept.copy_(live)
        else:
            kept.lerp_(live.to(kept.dtype), schedule.mix)
