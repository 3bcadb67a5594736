"""A Slurm of one node: this computer. All its files and sockets are in one folder."""

from __future__ import annotations

import os
import platform
import pwd
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tests.environment import missing as missing_commands

_COMMANDS = ("munged", "slurmctld", "slurmd", "sbatch", "scancel", "sinfo", "squeue")
_PATIENCE = 30.0  # seconds for a daemon to answer
PARTITION = "short"
_CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
MpiDefault=none
ReturnToService=2
KillWait=5
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=16 RealMemory=65536 State=UNKNOWN
PartitionName={partition} Nodes={host} Default=YES MaxTime=60 State=UP
"""


def missing() -> str:
    """Why there can be no such Slurm here; "" when there can."""
    if reason := missing_commands(*_COMMANDS):
        return reason
    return "" if os.geteuid() == 0 else "needs root"


@contextmanager
def slurm_node(folder: Path) -> Iterator[Mapping[str, str]]:
    """Start the daemons; they are ended with the `with`, and all jobs with them.

    Yields:
        the environment for commands that use this Slurm.
    """
    host = platform.node().partition(".")[0]
    for name in ("state", "spool"):
        (folder / name).mkdir()
    configuration, key = folder / "slurm.conf", folder / "munge.key"
    configuration.write_text(
        _CONFIGURATION.format(host=host, user=pwd.getpwuid(os.geteuid()).pw_name, folder=folder,
                              ports=_free_ports(), partition=PARTITION)
    )  # fmt: skip
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o600)
    munge = [f"--{name}-file={folder}/munged.{name}" for name in ("log", "pid", "seed")]
    env = {**os.environ, "SLURM_CONF": str(configuration)}
    with ExitStack() as stack:
        for words in (
            ["munged", "--foreground", "--force", f"--socket={folder}/munge.socket",
             f"--key-file={key}", *munge],
            ["slurmctld", "-D", "-f", str(configuration)],
            ["slurmd", "-D", "-f", str(configuration), "-N", host],
        ):  # fmt: skip
            stack.enter_context(_daemon(words, env, folder))
            _await_socket(folder, words[0])
        _await_node(env, folder)
        try:
            yield env
        finally:
            _cancel_all(env)


def _free_ports() -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(2)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@contextmanager
def _daemon(words: list[str], env: Mapping[str, str], folder: Path) -> Iterator[None]:
    with (folder / f"{words[0]}.out").open("wb") as out:
        process = subprocess.Popen(words, env=env, stdout=out, stderr=out, cwd=folder)
        try:
            yield
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()


def _await_socket(folder: Path, name: str) -> None:
    """Wait until munged answers; the others are awaited together."""
    until = time.monotonic() + _PATIENCE
    while name == "munged" and not (folder / "munge.socket").exists():
        assert time.monotonic() < until, (folder / "munged.out").read_text()
        time.sleep(0.05)


def _await_node(env: Mapping[str, str], folder: Path) -> None:
    until = time.monotonic() + _PATIENCE
    while True:
        words = ["sinfo", "--noheader", "--format=%T"]
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
        if done.stdout.strip() == "idle":
            return
        logs = "".join(path.read_text() for path in folder.glob("slurm*.log"))
        assert time.monotonic() < until, f"{done.stdout}{done.stderr}{logs[-4000:]}"
        time.sleep(0.2)


def jobs_in_slurm(env: Mapping[str, str]) -> list[str]:
    """Numbers of all jobs that run or wait."""
    words = ["squeue", "--noheader", "--format=%i", "--states=PENDING,RUNNING"]
    return subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout.split()


def _cancel_all(env: Mapping[str, str]) -> None:
    for job in jobs_in_slurm(env):
        subprocess.run(["scancel", "--signal=KILL", "--full", job], env=env, check=False)
        subprocess.run(["scancel", job], env=env, check=False)
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        words = ["squeue", "--noheader"]
        done = subprocess.run(words, env=env, capture_output=True, check=False)
        if not done.stdout.strip():
            return
        time.sleep(0.2)
