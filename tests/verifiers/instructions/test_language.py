"""Languages: deterministic, and refused by name when the package is missing."""

from __future__ import annotations

import sys

import pytest

from guerdon.errors import MissingExtra
from guerdon.types import Rollout, Status
from guerdon.verifiers.instructions import InstructionsVerifier
from guerdon.verifiers.instructions.language import detector

FRENCH = {"instruction_id": "language:response_language", "language": "fr"}
CAPITALS = {"instruction_id": "change_case:english_capital"}


@pytest.mark.parametrize("constraint", [FRENCH, CAPITALS, {"instruction_id": "change_case:english_lowercase"}])
@pytest.mark.parametrize("completion", ["BONJOUR", ""])
def test_missing_package_is_named_at_the_first_reference(
    constraint: dict[str, str], completion: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    detector.cache_clear()
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    with pytest.raises(MissingExtra, match=r"pip install 'guerdon\[ifeval\]'"):
        InstructionsVerifier().judge([Rollout(completion, answer=[constraint])])


def test_other_constraints_need_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    detector.cache_clear()
    assert InstructionsVerifier().judge([Rollout("a", answer=[{"instruction_id": "punctuation:no_comma"}])])[0].score == 1.0


@pytest.mark.parametrize("code", ["xx", "english", "", "f", 3, None, ["fr"]])
def test_unknown_language_is_a_broken_reference(code: object) -> None:
    pytest.importorskip("py3langid", reason="extra ifeval")
    (verdict,) = InstructionsVerifier().judge([Rollout("Bonjour", answer=[{**FRENCH, "language": code}])])
    assert verdict.status is Status.BAD_REFERENCE


@pytest.mark.parametrize("code", ["fr", "FR", "fr-CA", "fr_FR"])
def test_region_and_case_of_a_code_do_not_matter(code: str) -> None:
    pytest.importorskip("py3langid", reason="extra ifeval")
    text = "Le renard brun saute par-dessus le chien paresseux."
    assert InstructionsVerifier().judge([Rollout(text, answer=[{**FRENCH, "language": code}])])[0].score == 1.0


def test_short_text_gets_the_same_verdict_every_time() -> None:
    pytest.importorskip("py3langid", reason="extra ifeval")
    rollouts = [Rollout("FARE INSIGHT ANALYTICS", answer=[CAPITALS])] * 50
    assert {verdict.score for verdict in InstructionsVerifier().judge(rollouts)} == {1.0}


def test_all_languages_of_the_data_set_are_known() -> None:
    pytest.importorskip("py3langid", reason="extra ifeval")
    asked = "ar bg bn de en es fa fi fr gu he hi it ja kn ko ml mr ne pa pl pt ru sw ta te th uk ur vi"
    assert set(asked.split()) <= set(detector().labels)
