"""The process under which one call runs at a time: a subreaper, forked from the runner before it is needed.

A worker takes a job and three descriptors over a socket, starts the command or does the file operation itself, reports
its end, then reaps whatever the command left behind until nothing is left, and is ready for the next call. Blocking is
right here: everything else, killing included, is the runner's work.
"""

from __future__ import annotations

import array
import gc
import json
import marshal
import os
import signal
import socket
import stat
from typing import Any, NoReturn

from sandgate_providers.runner import kernel, operations
from sandgate_providers.runner.failures import OperationFailed, from_os_error

MESSAGE_BYTES = 192 * 1024
"""Largest job: a datagram must fit into the kernel's default socket buffer (208 KiB)."""
OUT_OF_MEMORY_SCORE = b"500"
"""Commands are better victims than the runner."""
_RESET_SIGNALS = [signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGINT, signal.SIGTERM]


Job = dict[str, Any]
"""What a call asks for, as `table` checked it."""


class Worker:
    """What runs in the forked process."""

    def __init__(self, peer: socket.socket, configuration: dict[str, object]) -> None:
        self._peer = peer
        self._places: dict[tuple[str, str], str] = {}
        self._configuration = configuration

    def serve(self) -> None:
        """Take jobs until the runner closes the socket."""
        kernel.adopt_orphans()
        kernel.die_with_parent()
        kernel.limit_children(self._configuration)
        os.umask(0o022)
        while True:
            message, ancillary, _, _ = self._peer.recvmsg(
                MESSAGE_BYTES, socket.CMSG_SPACE(3 * 4), socket.MSG_CMSG_CLOEXEC
            )
            if not message:
                return
            descriptors = array.array("i")
            for _, _, data in ancillary:
                descriptors.frombytes(data)
            job = marshal.loads(message)  # noqa: S302 - from the runner, over a socket pair that only we hold
            if "argv" in job:
                self._run_command(job, list(descriptors))
            else:
                self._run_operation(job, list(descriptors))

    def _tell(self, *message: Any) -> None:  # noqa: ANN401 - what marshal takes
        self._peer.send(marshal.dumps(message))

    def _fail(self, code: str, text: str) -> None:
        self._tell("failed", code, text)

    def _run_command(self, job: Job, descriptors: list[int]) -> None:
        try:
            pid = self._start(job, descriptors)
        except OSError as error:
            failure = from_os_error(error, str(error.filename or job["argv"][0]))
            self._fail(failure.code, str(failure))
            return
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        main = pid
        while True:
            try:
                pid, status, usage = os.wait4(-1, 0)
            except ChildProcessError:
                break
            if pid == main:
                main = 0
                left = self._children_left()
                self._tell("exit", status, usage.ru_utime + usage.ru_stime, left)
                if not left:
                    return
        self._tell("idle")

    @staticmethod
    def _children_left() -> int:
        """Give 1 when some process is left behind, else 0."""
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return 0
        return 1

    def _start(self, job: Job, descriptors: list[int]) -> int:
        environment = job["environment"]
        path = self._find(job["argv"][0], environment.get("PATH", ""))
        os.chdir(job["cwd"])
        try:
            pid = os.posix_spawn(
                path,
                job["argv"],
                environment,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, descriptor, number) for number, descriptor in enumerate(descriptors)
                ],
                setsid=True,
                setsigmask=[],
                setsigdef=_RESET_SIGNALS,
            )
        finally:
            os.chdir("/")  # never keep a folder of the user's busy
        try:
            # After exec the process is dumpable again, and only then is this file ours to write.
            score = os.open("/proc/{}/oom_score_adj".format(pid), os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            return pid  # it has ended already
        try:
            os.write(score, OUT_OF_MEMORY_SCORE)
        except OSError:
            pass  # a container may forbid it; then all have the same score, and the limit still holds
        finally:
            os.close(score)
        return pid

    def _find(self, program: str, search_path: str) -> str:
        if "/" in program:
            return program
        place = self._places.get((program, search_path))
        if place is not None and os.access(place, os.X_OK):
            return place
        for folder in search_path.split(":"):
            place = os.path.join(folder, program)
            try:
                if stat.S_ISREG(os.stat(place).st_mode) and os.access(place, os.X_OK):
                    self._places[program, search_path] = place
                    return place
            except OSError:
                continue
        raise FileNotFoundError(2, "program not found", program)

    def _run_operation(self, job: Job, descriptors: list[int]) -> None:
        """Do a file operation here: its content goes to the call's output, its value as JSON to the error output."""
        source_fd, sink_fd, value_fd = descriptors
        with open(source_fd, "rb") as source, open(value_fd, "wb") as answer:
            sink = open(sink_fd, "wb")  # noqa: SIM115 - closed below, where a reader that went away is no error
            try:
                value = operations.run(job["operation"], job["arguments"], source, sink)
                sink.flush()
                answer.write(json.dumps(value).encode("ascii"))
                answer.flush()
            except OperationFailed as error:
                self._fail(error.code, str(error))
                return
            except OSError as error:
                failure = from_os_error(error, os.fsdecode(error.filename) if error.filename else job["operation"])
                self._fail(failure.code, str(failure))
                return
            except (MemoryError, RecursionError) as error:
                self._fail("too-large", "not enough memory for this ({})".format(type(error).__name__))
                return
            finally:
                try:
                    sink.close()
                except OSError:
                    pass  # the reader went away; what it did not read is nobody's loss
        own = os.times()
        self._tell("exit", 0, own.user + own.system, 0)


def main(peer: socket.socket, configuration: dict[str, object]) -> NoReturn:
    """Be a worker: keep nothing of the runner but the socket, and never return."""
    code = 1
    try:
        gc.freeze()  # what was forked along is the runner's; collecting it here would close descriptors that are ours
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        keep = peer.fileno()
        nothing = os.open("/dev/null", os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        os.closerange(3, keep)
        os.closerange(keep + 1, os.sysconf("SC_OPEN_MAX"))
        Worker(peer, configuration).serve()
        code = 0
    finally:
        # Whatever went wrong: the runner sees the code, and nothing of its own state may unwind here.
        os._exit(code)
