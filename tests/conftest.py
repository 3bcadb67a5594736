"""What the tests share: which of them run here, built sample images, the command line."""

from __future__ import annotations

import gc
import os
import random
import socket
import subprocess
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from hypothesis import settings

from sample_images import Built, build, unpack
from sample_images.recipes import machine
from tests.environment import ROOT, choosing, everything, failures, left_out, sharing, widen_path
from tests.environment.kernel import missing_for_kernel
from tests.program import run_program

# How busy the machine is decides nothing; what is drawn differs from run to run in the long one.
settings.register_profile("steady", deadline=None, derandomize=not everything())
settings.load_profile("steady")
widen_path()

Cli = Callable[..., subprocess.CompletedProcess[str]]
Images = Callable[[str], Built]
KERNEL_FIXTURES = {"needs_kernel", "built"}
NEED_NETWORK = {"debian"}  # of the recipes; user-mode kernels have none
TOO_LARGE = {"forgotten_many"}  # for a process there: 400,000 files; and it takes over 12 minutes

_basetemp = pytest.StashKey[Path]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Which of the slow tests run, and which share of all."""
    group = parser.getgroup("ext4kit")
    group.addoption("--all", action="store_true", help="run every slow test")
    group.addoption("--quick", action="store_true", help="of heavy tests alike run one, no sixth")
    group.addoption("--seed", type=int, help="chooses which of tests alike run")
    group.addoption("--part", default="1/1", help="run one of so many parts, as 1/2")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Settle what all processes of the run have to agree on, before any is started."""
    if config.option.all:
        os.environ["EXT4KIT_SLOW"] = "1"
    if config.option.seed is None:
        config.option.seed = random.SystemRandom().randrange(1_000_000)
    if hasattr(config, "workerinput"):
        return
    missing_for_kernel()
    factory: pytest.TempPathFactory = config._tmp_path_factory  # type: ignore[attr-defined]
    config.stash[_basetemp] = factory.getbasetemp()
    os.environ.setdefault(sharing.IMAGES, str(factory.getbasetemp() / "images"))


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> choosing.Groups:
    """Spread groups of tests over the processes."""
    return choosing.Groups(config, log)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import only the modules that this part has tests of: that takes time and memory."""
    if not collection_path.match("test_*.py"):
        return None
    module = collection_path.relative_to(ROOT).as_posix()
    return choosing.is_elsewhere(module, config.option.part) or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose what runs; skip, with the reason, what this machine does not allow."""
    for item in items:
        if KERNEL_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.kernel)
    reason = missing_for_kernel()
    for item in items:
        if reason and item.get_closest_marker("kernel"):
            item.add_marker(pytest.mark.skip(reason=reason))
    for item, why in () if everything() else list(_not_chosen(items, config)):
        item.add_marker(pytest.mark.skip(reason=why))
    items[:] = choosing.in_part(items, config.option.part)


def _not_chosen(
    items: list[pytest.Item], config: pytest.Config
) -> Iterator[tuple[pytest.Item, str]]:
    """(test, reason) of the slow and heavy tests that are left for later."""
    others = []
    for item in items:
        if NEED_NETWORK & _parameters(item):
            yield item, "slow"
        else:
            others.append(item)
    for mark in ("slow", "heavy") if config.option.quick else ("slow",):
        for item in choosing.left_for_later(others, config.option.seed, mark):
            yield item, mark
        others = [item for item in others if not item.get_closest_marker(mark)]
    for item in choosing.heavy_for_later(others, config.option.seed):
        yield item, "heavy, of which a sixth runs"


def _parameters(item: pytest.Item) -> set[object]:
    """The names among the parameters of a test."""
    called = getattr(item, "callspec", None)  # which only tests with parameters have
    return (
        {value for value in called.params.values() if isinstance(value, str)} if called else set()
    )


def pytest_collection_finish() -> None:
    """What is loaded by now stays; garbage is looked for in the rest, which holds open images."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Leave a module of tests out where a module that only Unix has is not here."""
    report = yield
    call: pytest.CallInfo[object] = report.call
    absent = left_out.absent_module(call.excinfo) if report.failed else ""
    if absent:
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 0, f"Skipped: needs {absent}")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Leave a test out, and not fail it, where a tool of the list is not here."""
    report = yield
    if call.excinfo and report.failed:
        reason = left_out.absent_tool(call.excinfo.value)
        if reason:
            path, line, _ = item.location
            report.outcome = "skipped"
            report.longrepr = (path, line or 0, f"Skipped: {reason}")
    return report


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """What was left out and how to bring it in; where a failed run's images are."""
    left_out.show(terminalreporter)
    terminalreporter.write_line(
        f"chosen by --seed {config.option.seed}: one of slow tests alike, a sixth of heavy ones"
    )
    failed = [
        report.nodeid
        for outcome in ("failed", "error")
        for report in terminalreporter.stats.get(outcome, [])
    ]
    if failed:
        arguments = config.invocation_params.args
        kept = failures.keep(
            config.stash[_basetemp], config.option.seed, list(map(str, arguments)), failed
        )
        terminalreporter.write_line(f"kept, with images and truth files: {kept}")


@pytest.fixture(scope="session")
def needs_kernel() -> None:
    """Marks a test, by its fixtures, as one that mounts images."""


@pytest.fixture(scope="session")
def built() -> Images:
    """Give the image of a recipe, made once in a run."""

    def give(name: str) -> Built:
        if name in NEED_NETWORK and {one for _, one in socket.if_nameindex()} <= {"lo"}:
            pytest.skip("needs a network")
        if name in TOO_LARGE and machine.owns_clock():
            pytest.skip("needs root: it is too large for a user-mode kernel")
        return sharing.built_once(f"recipe-{name}", lambda folder: _apart(name, folder))

    return give


def _apart(name: str, folder: Path) -> Built:
    """Make an image in a process of its own, whose memory is given back; what it raises, too."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(build, name, folder).result()


@pytest.fixture(scope="session")
def unpacked() -> Images:
    """Give a packed sample, unpacked once in a run; needs no root."""
    return lambda name: sharing.built_once(f"packed-{name}", lambda folder: unpack(name, folder))


@pytest.fixture(scope="session")
def ext4kit() -> Cli:
    """Run the command line in a process of its own and give what it said."""

    def call(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        done = run_program(*arguments)
        said, told = (part.decode(errors="replace") for part in (done.stdout, done.stderr))
        return subprocess.CompletedProcess(done.args, done.returncode, said, told)

    return call
