"""A pytest plugin for the measured run: which test runs which line, and how long it takes.

Lines that fixtures run belong to all tests of the file: their context is the file. What functions
keep of earlier calls is forgotten before each test.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Generator
from pathlib import Path

import coverage
import pytest

SECONDS = "EXT4KIT_MUTATION_SECONDS"  # the file for how long each test took
_seconds: dict[str, float] = {}
_fixtures: dict[str, float] = {}


def _forget() -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("ext4kit"):
            for value in vars(module).values():
                if isinstance(value, functools._lru_cache_wrapper):
                    value.cache_clear()


def _switch(context: str) -> None:
    running = coverage.Coverage.current()
    assert running is not None
    running.switch_context(context)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Lines of fixtures count for the file."""
    _forget()
    _switch(item.nodeid.split("::")[0])
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Lines of the test count for it."""
    _switch(item.nodeid)
    return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note the seconds of a test that passed, with those of its fixtures."""
    if report.when == "setup":
        _fixtures[report.nodeid] = report.duration
    if report.when == "call" and report.passed:
        _seconds[report.nodeid] = _fixtures[report.nodeid] + report.duration


def pytest_sessionfinish() -> None:
    """Write the seconds down."""
    Path(os.environ[SECONDS]).write_text(json.dumps(_seconds))
