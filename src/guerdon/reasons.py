"""The machine codes guerdon's own verdicts carry as `reason`, with their meaning.

One closed table, so that metrics keyed by reason stay few. A test checks that no other code appears in the source.
User verifiers may use codes of their own (lower case, digits and underscores).
"""

from __future__ import annotations

__all__ = ["REASONS"]

REASONS: dict[str, str] = {
    # the completion's doing
    "no_box": "no \\boxed{...} was found where one was required",
    "empty_box": "the last box is empty",
    "several_boxes": "more than one box was found where one was required",
    "unterminated_box": "the last box is never closed",
    "missing_tag": "a tag that was asked for is not there, or not where it belongs",
    "unclosed_tag": "a tag is opened and never closed",
    "repeated_tag": "a tag appears more often than it may, or inside another",
    "empty_tag": "nothing stands between two tags, or after them, where something must",
    "text_outside": "text stands outside the tags",
    "overlong": "the completion is longer than it may be without a penalty",
    "repeated": "n-grams repeat within the completion",
    "duplicate": "a sibling of the group says the same",
    "no_answer": "no rule found an answer in the completion",
    "ambiguous": "the completion names several different answers",
    "not_json": "the answer is not one JSON value",
    "schema_violation": "the JSON value does not satisfy the schema",
    "mismatch": "the answer differs from the reference",
    "no_match": "no alternative of the reference matched",
    "constraint_unmet": "a constraint of the instructions does not hold",
    "unreadable": "the answer cannot be read as mathematics",
    "too_large": "the answer is too large or too deep to be checked",
    "cpu_limit": "the candidate used up its CPU limit",
    "wall_limit": "the candidate overran its wall limit twice, the second time alone",
    "memory_limit": "the program used more memory than it may",
    "output_limit": "the program wrote more than is read",
    "no_code": "no rule found a program in the completion",
    "compile_error": "the program does not compile",
    "runtime_error": "the program raised, exited with an error, was killed or ended before it had answered",
    "too_many_rounds": "the tests went on calling the program, each call depending on the one before",
    # composition
    "gate_closed": "the gate's condition was not met",
    "truncated": "the completion was cut by the length limit",
    "abstained": "a user function raised Abstain",
    "not_concerned": "the term does not concern this row",
    "off_route": "the row's route does not use this term",
    # somebody has something to mend
    "missing_reference": "the row has no answer where the term needs one",
    "malformed_reference": "the answer (reference) cannot be read",
    "unknown_route": "the routing column holds a value that no route names",
    "bad_column": "a column the term reads holds something unusable",
    "checker_timeout": "the check overran its wall limit with CPU time left",
    "lost_worker": "the worker that ran the check died",
    "lost_sandbox": "the sandbox that ran the program was lost, twice",
    "checker_failed": "the checker program or function broke",
    "service_failed": "the service asked for a score failed, was not reachable or answered something else",
    "no_reply": "the judge declined, said nothing or was cut off",
    "unparsed_reply": "no score was found in the judge's reply",
    "deadline": "the call's deadline passed before this row was done",
    "exception": "the check raised an exception",
    "wrong_length": "the check returned a wrong number of results",
    "wrong_type": "the check returned something that is not a score",
    "non_finite": "the check returned NaN or infinity",
    "out_of_range": "the check returned a score outside 0..1",
}
