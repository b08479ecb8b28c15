"""When to use which recipe: one line for and one against each, and the questions that people ask. Text only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["ADVICE", "QUESTIONS", "Advice", "Question"]


@dataclass(frozen=True, slots=True)
class Advice:
    """When a recipe fits, and when another does better."""

    use: str
    avoid: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question and its answer; `recipes` are those the answer names, first choice first."""

    about: str
    ask: str
    answer: str
    recipes: tuple[str, ...]


ADVICE: Mapping[str, Advice] = MappingProxyType(
    {
        "grpo": Advice(
            "to reproduce DeepSeekMath, or as the baseline that every other recipe is compared with",
            "long chains of thought: a token of a long answer counts less than one of a short answer (dapo, dr_grpo)",
        ),
        "dapo": Advice(
            "long chains of thought with a verifiable 0/1 reward, when prompts are plentiful enough to draw again",
            "few prompts or a hard set: refilling a batch at 10 % informative groups costs ten times the rollouts",
        ),
        "dr_grpo": Advice(
            "when answers grow without getting better: no length and no difficulty bias in the gradient",
            "rewards whose scale differs between prompts: without a std the loudest prompts lead",
        ),
        "gspo": Advice(
            "mixtures of experts and long sequences: one ratio a sequence is not upset by one rerouted token",
            "advantages that differ between tokens (gspo_token), or a clip range of 0.2: it wants 3e-4",
        ),
        "gspo_token": Advice(
            "GSPO with advantages of tokens (process rewards, tools)", "one advantage a completion: it is gspo, at more memory"
        ),
        "two_grpo": Advice(
            "when rollouts dominate the cost: two a prompt, many prompts",
            "together with zero-variance filtering: at most half of all pairs are informative",
        ),
        "gmpo": Advice(
            "token ratios with outliers: a geometric mean with a wide clip",
            "exact importance sampling over several epochs: the mean is biased",
        ),
        "sapo": Advice(
            "when hard clipping starves the gradient: tokens fade out of the update instead of dropping out",
            "very off-policy data: the gate fades, it does not bound how far tokens drift",
        ),
        "cispo": Advice(
            "off-policy steps in which rare decisive tokens (wait, however) must keep their gradient",
            "runs that collapse under negative advantages: no token with A < 0 ever drops out",
        ),
        "scalerl": Advice("long runs that must extrapolate from short ones", "small batches: statistics over the batch get noisy"),
        "lite_ppo": Advice(
            "a base model and little to tune: two tricks on PPO without a critic", "rewards of very different spread between prompts"
        ),
        "vespo": Advice(
            "asynchronous training with stale rollouts: the sequence's weight is 1 on policy and decays smoothly",
            "very long completions far off policy: the product of ratios leaves its range and the weight is 0",
        ),
        "dppo": Advice(
            "large vocabularies, where a ratio clip over-constrains rare tokens and lets likely ones drift",
            "stacks without the engine's log-probabilities; the top-K forms need its top-K too",
        ),
        "luspo": Advice("GSPO whose answers shrink: long sequences count by length", "answers that already grow too long"),
        "gdpo": Advice("several rewards of unequal scale or sparsity: each is normalised before they are summed", "one reward: it is grpo"),
        "gopo": Advice(
            "a noisy or drifting reward model: only ranks count",
            "0/1 rewards: ranks of ties are two levels whose gap no longer depends on the pass rate",
        ),
        "rloo": Advice(
            "short answers on policy, with KL in the reward as in RLHF", "several epochs on long answers: its ratio is a product"
        ),
        "reinforce_pp": Advice(
            "one completion a prompt, general RLHF prompts", "few prompts with many completions: a group baseline is less noisy"
        ),
        "reinforce_pp_baseline": Advice(
            "group baseline without dividing by the group's std", "batches of few prompts: whitening over them is noisy"
        ),
        "tis": Advice(
            "any recipe whose rollouts come from another engine (vLLM, FP8)", "the same engine for both: weights of 1 at a price"
        ),
        "mis": Advice(
            "like tis, when mismatched completions do harm rather than count too much",
            "long answers at product level: few survive a cap of 3",
        ),
        "opsm": Advice(
            "several steps a batch on stale rollouts: drop wrong answers that the policy no longer gives",
            "strictly on policy: nothing to mask",
        ),
        "deepseek_r1": Advice(
            "to reproduce DeepSeek-R1: a moving reference keeps KL alive over 10,000 steps",
            "LoRA in TRL, which cannot sync a reference there",
        ),
        "olmo3": Advice(
            "an open recipe with every number published, on verifiable rewards", "several rewards of unequal scale: it does not normalise"
        ),
    }
)
"""By recipe."""

QUESTIONS: tuple[Question, ...] = (
    Question(
        "long",
        "Long chains of thought?",
        "Use a mean over tokens: a mean over completions divides a token's gradient by the length of its answer. Mask or "
        "penalise answers cut at the limit, and clip higher upwards so that exploration survives. If length grows without "
        "accuracy, divide by a constant.",
        ("dapo", "dr_grpo", "olmo3"),
    ),
    Question(
        "moe",
        "A mixture of experts?",
        "Routing differs between two forward passes, so token ratios are noise. Take the ratio of sequences, or correct for the engine.",
        ("gspo", "mis"),
    ),
    Question(
        "off-policy",
        "Several updates a batch, or asynchronous rollouts?",
        "First correct trainer against engine (tis, mis). Then a gate that bounds weights without losing tokens: a cap on "
        "weights, a smooth weight of sequences for very stale data, or a divergence per token. "
        "Log `clipped_high`, `rollout_weight_ess` and `clamped`.",
        ("tis", "cispo", "vespo", "dppo", "opsm"),
    ),
    Question(
        "rewards",
        "Several rewards of unequal scale?",
        "A std of the sum belongs to the loudest reward. Normalise each first, with an epsilon far below the rewards' spread "
        "(TRL's 1e-4 is not).",
        ("gdpo",),
    ),
    Question(
        "noise",
        "A noisy reward model?",
        "Use ranks, which ignore the scale, or a std over the batch rather than over a group of eight. Add KL where rewards can be gamed.",
        ("gopo", "lite_ppo", "rloo"),
    ),
    Question(
        "memory",
        "Memory or rollouts short?",
        "Leave out the reference (beta 0: no second model), take two completions a prompt, and compute losses on "
        "micro-batches: with token_weights they sum to the loss of the batch. Recipes with KL in the loss need the reference "
        "model, top-K DPPO the engine's top-K.",
        ("two_grpo", "dr_grpo"),
    ),
)
