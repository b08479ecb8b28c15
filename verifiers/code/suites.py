"""Runs inside the trusted jail: unittest and pytest files. Each of their tests is one check; only they can skip one, not the program."""

from __future__ import annotations

import os
import sys
import types
import unittest
from typing import Any

from guerdon.verifiers.code.stubs import Stop, Unsendable

__all__ = ["run_pytest", "run_unittest"]


class _Recorder(unittest.TestResult):
    """Notes a check for each test that was not skipped."""

    def __init__(self, checks: Any) -> None:
        super().__init__()
        self.checks, self.trouble, self.skipped_now = checks, "", False
        self.stopped: BaseException | None = None

    def startTest(self, test: unittest.TestCase) -> None:
        self.trouble, self.skipped_now = "", False
        self.checks.begin()

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        if isinstance(err[1], Stop | Unsendable):
            self.stopped = err[1]
        self.trouble = f"{err[0].__name__}: {err[1]}"[:300]

    addFailure = addError

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        if err is not None:
            self.addError(test, err)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.skipped_now = True

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self.trouble = "unexpected success"

    def stopTest(self, test: unittest.TestCase) -> None:
        if not self.skipped_now:
            self.checks.named(test.id(), self.trouble)


def run_unittest(order: Any, checks: Any, space: dict[str, Any]) -> None:
    """Run every TestCase that the file defines."""
    module = types.ModuleType("test_solution")
    sys.modules["test_solution"] = module
    exec(compile(order["setup"] + "\n" + order["tests"], "<tests>", "exec"), space)
    vars(module).update(space)
    result = _Recorder(checks)
    for case in list(space.values()):
        if isinstance(case, type) and issubclass(case, unittest.TestCase) and case.__module__ == "test_solution":
            unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    if result.stopped is not None:
        raise result.stopped


class _Plugin:
    """What pytest tells about its tests."""

    def __init__(self, checks: Any) -> None:
        self.checks, self.trouble, self.skipped = checks, "", False

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.trouble, self.skipped = "", False
        self.checks.begin()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.trouble = self.trouble or str(report.longrepr)[-300:]
        self.skipped = self.skipped or report.skipped

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        if not self.skipped:
            self.checks.named(nodeid.rpartition("::")[2], self.trouble)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.checks.named("collection", str(report.longrepr)[-300:])


def run_pytest(order: Any, checks: Any, space: dict[str, Any]) -> None:
    """Run the file by pytest itself, which must be installed where the sandbox runs. Plugins and conftest files are off."""
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    import pytest

    needed = f"from solution import {order['entry']}\n" if order["entry"].isidentifier() and "solution" not in order["tests"] else ""
    with open("test_solution.py", "w", encoding="utf-8", errors="replace") as file:
        file.write(needed + order["setup"] + "\n" + order["tests"])
    sys.modules.pop("test_solution", None)
    options = "-s --noconftest --assert=plain -p no:cacheprovider -p no:terminal -p no:warnings -c /dev/null --rootdir=. --confcutdir=."
    pytest.main([*options.split(), "test_solution.py"], plugins=[_Plugin(checks)])
