# SPDX-License-Identifier: Apache-2.0
"""Lets a torchft job use Skerry's manager in place of torchft's own.

torchft's Manager starts a manager in its group rank 0 that knows one lighthouse
address, and neither TLS nor tokens. With this file its place is taken by the program

    skerry torchft-manager

which knows several servers and goes on with the next one when one dies. Nothing in the
job changes but how it is started:

    python -m skerry_torchft train.py --its --arguments     (or -m its.module)

or one line in it, after "import torchft" and before its Manager is made:

    import skerry_torchft; skerry_torchft.install()

Environment:

    SKERRY              the program; without it "skerry" in PATH, or beside the interpreter
    SKERRY_LIGHTHOUSE   lighthouse servers, host:port,...; without it TORCHFT_LIGHTHOUSE,
                        or what the job gives its Manager, which may be several too
    SKERRY_TLS_CA, SKERRY_TLS_CERT, SKERRY_TLS_KEY, SKERRY_TOKEN_FILE, ...
                        as for every program of Skerry's

This file needs Python 3.9 and nothing else. "skerry torchft-manager shim" prints it.
"""

import os
import queue
import runpy
import shutil
import subprocess
import sys
import threading
from datetime import timedelta


class ManagerServer:
    """Stands in for torchft's class of that name: the same arguments and methods.

    It starts the program and returns when that listens; RuntimeError says why it does
    not. The program ends with this process, however that ends. If the program ends by
    itself, killed by an operator or otherwise, this process ends with status 1, as it
    would with torchft's own manager, which is part of it.
    """

    def __init__(
        self,
        replica_id,
        lighthouse_addr,
        hostname,
        bind,
        store_addr,
        world_size,
        heartbeat_interval=timedelta(milliseconds=100),
        connect_timeout=timedelta(seconds=60),
        quorum_retries=0,  # the program asks until the caller's deadline
    ):
        beside = os.path.dirname(sys.executable)  # where the wheel puts it
        program = os.environ.get("SKERRY") or shutil.which("skerry") or shutil.which("skerry", path=beside)
        if not program:
            raise RuntimeError("skerry_torchft: no program skerry in PATH; set SKERRY to its path")
        command = [
            program, "torchft-manager", "--end-with-stdin", "--die-with-parent",
            "--replica-id", replica_id,
            "--lighthouse", os.environ.get("SKERRY_LIGHTHOUSE") or lighthouse_addr,
            "--store", store_addr,
            "--group-world-size", str(world_size),
            "--listen", bind, "--open",  # as torchft's own: ranks and peers of other hosts have no proof to show
            "--advertise", hostname,
            "--beat-interval", f"{max(1, round(heartbeat_interval / timedelta(milliseconds=1)))}ms",
        ]
        self._ended = threading.Event()
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        first = queue.Queue()
        self._watcher = threading.Thread(target=self._watch, args=(first,), daemon=True)
        self._watcher.start()
        try:
            self._address = first.get(timeout=connect_timeout / timedelta(seconds=1)).strip()
        except queue.Empty:
            self._address = ""
        if not self._address:
            self.shutdown()
            raise RuntimeError(f"skerry_torchft: {' '.join(command)}: no address within {connect_timeout}; its error stands above")

    def _watch(self, first):
        line = self._child.stdout.readline()
        if not line:
            self._ended.set()  # it never served: the constructor says so
        first.put(line)
        status = self._child.wait()
        if not self._ended.is_set():
            print(f"skerry_torchft: the manager has ended with status {status}, and this replica with it", file=sys.stderr, flush=True)
            os._exit(1)

    def address(self):
        """The manager's URL."""
        return self._address

    def shutdown(self):
        """Ends the program. It may be called again."""
        self._ended.set()
        self._child.stdin.close()
        self._child.terminate()  # a forked child of ours may hold its input open
        try:
            self._child.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()


def install():
    """Puts ManagerServer in the place of torchft's. It imports torchft."""
    import torchft.manager

    if not hasattr(torchft.manager, "ManagerServer"):
        raise RuntimeError("skerry_torchft: this torchft has no torchft.manager.ManagerServer")
    torchft.manager.ManagerServer = ManagerServer


def main():
    arguments = sys.argv[1:]
    if not arguments or arguments == ["-m"]:
        sys.exit("usage: python -m skerry_torchft SCRIPT|-m MODULE [ARGUMENT...]")
    install()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
