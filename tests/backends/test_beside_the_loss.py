"""Divergences, schedules and penalties: what is computed beside the loss."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch (make stacks)")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from guerdon.backends.axes import KL, ReferenceSync  # noqa: E402
from guerdon.backends.grpo.divergence import divergence_keep, token_divergence, with_sampled  # noqa: E402
from guerdon.backends.grpo.kl import kl_penalties  # noqa: E402
from guerdon.backends.grpo.masks import duplicate_weights  # noqa: E402
from guerdon.backends.grpo.schedules import is_due, sync  # noqa: E402

numbers = st.integers(0, 10_000)


def policies(number: int, vocabulary: int = 9) -> tuple[Any, Any, Any]:
    """Rollout and current log-probabilities (1, 4, vocabulary), and sampled ids (1, 4)."""
    generator = torch.Generator().manual_seed(number)
    mu, pi = (torch.randn(1, 4, vocabulary, generator=generator, dtype=torch.float64).mul(2).log_softmax(-1) for _ in range(2))
    return mu, pi, torch.multinomial(mu[0].exp(), 1, generator=generator).view(1, 4)


@given(numbers, st.sampled_from(["tv", "kl"]), st.integers(1, 5))
def test_binary_is_below_top_k_with_the_sampled_token_is_below_full(number: int, kind: str, k: int) -> None:
    mu, pi, sampled = policies(number)
    ids = mu.topk(k).indices
    of = {name: each.gather(-1, sampled[..., None]) for name, each in (("mu", mu), ("pi", pi))}
    top = [with_sampled(ids, each.gather(-1, ids), sampled, of[name][..., 0]) for name, each in (("mu", mu), ("pi", pi))]
    binary, named, full = token_divergence(kind, of["mu"], of["pi"]), token_divergence(kind, *top), token_divergence(kind, mu, pi)
    assert (binary <= named + 1e-12).all()
    assert (named <= full + 1e-12).all()


def test_top_k_without_the_sampled_token_can_fall_below_binary() -> None:
    below = 0
    for number in range(200):
        mu, pi, sampled = policies(number)
        ids = mu.topk(2).indices
        binary = token_divergence("kl", mu.gather(-1, sampled[..., None]), pi.gather(-1, sampled[..., None]))
        below += int((token_divergence("kl", mu.gather(-1, ids), pi.gather(-1, ids)) < binary - 1e-12).any())
    assert below > 0


@given(numbers, st.sampled_from([1.0, -1.0]))
def test_a_token_that_moves_back_is_kept(number: int, advantage: float) -> None:
    mu, pi, sampled = policies(number)
    of_mu, of_pi = (each.gather(-1, sampled[..., None])[..., 0] for each in (mu, pi))
    keep = divergence_keep(token_divergence("tv", mu, pi), of_mu, of_pi, torch.tensor([advantage]), 0.0)
    assert (keep[(of_pi - of_mu) * advantage <= 0] == 1).all()
    assert (keep[(of_pi - of_mu) * advantage > 0] == 0).all()


def test_divergences_at_certainty_are_finite() -> None:
    sure, gone = torch.zeros(1, 1, 1), torch.full((1, 1, 1), -200.0)
    for mu, pi in ((sure, sure), (sure, gone), (gone, sure), (gone, gone)):
        assert token_divergence("tv", mu, pi).isfinite().all()
        assert token_divergence("kl", mu, pi).isfinite().all()


def test_a_hard_copy_is_exact_and_a_mix_is_an_average() -> None:
    reference, policy = [torch.zeros(3), torch.ones(2)], [torch.full((3,), 0.1), torch.zeros(2)]
    sync(ReferenceSync(every=1, mix=0.5), reference, policy)
    torch.testing.assert_close(reference, [torch.full((3,), 0.05), torch.full((2,), 0.5)])
    sync(ReferenceSync(every=1), reference, policy)
    assert all(torch.equal(one, other) for one, other in zip(reference, policy, strict=True))


def test_steps_at_which_a_sync_is_due() -> None:
    assert [step for step in range(1300) if is_due(ReferenceSync(400), step)] == [400, 800, 1200]
    assert not is_due(None, 400)


def test_penalties_in_the_reward_are_beta_times_the_estimate() -> None:
    old, ref, mask = torch.tensor([[-1.0, -2.0]]), torch.tensor([[-1.5, float("nan")]]), torch.tensor([[1, 0]])
    torch.testing.assert_close(kl_penalties(KL(0.1, "k1", place="reward"), old, ref, mask), torch.tensor([[0.05, 0.0]]))


def test_the_first_of_equal_completions_is_kept() -> None:
    assert duplicate_weights(["a", "b", "a", "a"], [0, 0, 0, 1]) == [1.0, 1.0, 0.0, 1.0]
