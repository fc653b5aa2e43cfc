"""Looking at the processes of this machine."""

from __future__ import annotations

import subprocess
import sys

from sandgate_providers.local.processes import processes

HEADLESS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
print("up", flush=True)
ctypes.CDLL(None).syscall(60 if __import__("platform").machine() == "x86_64" else 93, 0)
"""
"""Ends its first thread alone (the system call `exit`), while another goes on."""


def test_a_process_without_its_first_thread_is_not_gone() -> None:
    """It has the state of a zombie, but it lives; a real zombie is gone."""
    with subprocess.Popen([sys.executable, "-c", HEADLESS], stdout=subprocess.PIPE) as headless:
        assert headless.stdout is not None
        headless.stdout.readline()
        while _state(headless.pid) != "Z":
            pass
        assert [process.gone for process in processes() if process.pid == headless.pid] == [False]
        headless.kill()
    with subprocess.Popen(["true"]) as ended:
        while _state(ended.pid) != "Z":
            pass
        assert [process.gone for process in processes() if process.pid == ended.pid] == [True]


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat", encoding="ascii") as source:  # noqa: PTH123 - a file of the kernel's
        return source.read().rpartition(")")[2].split()[0]
