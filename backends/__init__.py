"""Trainer backends: adapters, servers, rollout engines and the training loop live here, and nothing below imports them.

Torch may be imported in this room only. Every module is imported by name; this one imports none of them.
"""
