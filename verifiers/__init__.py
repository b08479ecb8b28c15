"""Is it right? Verifiers judge completions against their answers and give one `guerdon.Verdict` per rollout.

They know nothing of rewards. Each subpackage is imported by name: `guerdon.verifiers.math`, `.choice`, `.exact`,
`.json_schema`, `.instructions`. What several of them need is in `guerdon.verifiers.base`.
"""
