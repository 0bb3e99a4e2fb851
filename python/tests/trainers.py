"""Replicas of a training, each a process, and the lighthouse that they meet at."""

import collections
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

ROOT = os.path.join(os.path.dirname(__file__), "../..")
DIGITS = os.path.join(ROOT, "python/examples/digits.py")
LATE = os.path.join(ROOT, "python/tests/late.py")
PATIENCE = 120  # seconds; reaching it is a failure

Step = collections.namedtuple("Step", "number participants at sha")
_step = re.compile(r"step (\d+) loss \S+ with (\d+) at (\d+) sha (\w+)")


class Lighthouse:
    def __init__(self, binary, *args):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{s.getsockname()[1]}"
        self._process = subprocess.Popen([binary, "--bind", self.address, *args], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def close(self):
        self._process.kill()
        self._process.wait()


class Replica:
    """A process of examples/digits.py, or of another program."""

    def __init__(self, lighthouse, name, *args, program=DIGITS):
        env = dict(os.environ, REPLICA_GROUP_ID=name, SKERRY_LIGHTHOUSE=lighthouse.address)
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, program, *map(str, args)], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        os.set_blocking(self.process.stdout.fileno(), False)
        self.output = ""

    def read(self):
        while more := self.process.stdout.read():
            self.output += more.decode(errors="replace")
        return self.output

    def steps(self):
        return [Step(int(m[1]), int(m[2]), int(m[3]), m[4]) for m in _step.finditer(self.read())]

    def until(self, what, deadline=PATIENCE):
        """Waits until the output has something that matches."""
        end = time.monotonic() + deadline
        while not re.search(what, self.read()):
            if self.process.poll() is not None and not re.search(what, self.read()):
                pytest.fail(f"{self.name} ended with {self.process.returncode} before {what!r}: {self.output[-2000:]}")
            if time.monotonic() > end:
                pytest.fail(f"{self.name} has not said {what!r} after {deadline} s: {self.output[-2000:]}")
            time.sleep(0.01)

    def end(self, status=0):
        """Waits for the process to end well."""
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)
            pytest.fail(f"{self.name} does not end: {self.read()[-2000:]}")
        self.read()
        assert code == status, f"{self.name} ended with {code}: {self.output[-2000:]}"

    def kill(self, sig=signal.SIGKILL):
        self.process.send_signal(sig)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def in_threads(*bodies):
    """Runs each on a thread of its own, and returns what they return. An exception of one is the caller's."""
    out, failed = [None] * len(bodies), []

    def run(i):
        try:
            out[i] = bodies[i]()
        except BaseException as e:
            failed.append(e)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(bodies))]
    for t in threads:
        t.start()
    for t in threads:
        t.join(PATIENCE)
        assert not t.is_alive(), "one of them hangs"
    if failed:
        raise failed[0]
    return out


def both(lighthouse, body, **settings):
    """What body(name, manager) returns on the threads of two replicas, by name."""
    import skerry

    def run(name):
        with skerry.Manager(replica_id=name, lighthouse=lighthouse.address, **{"min_replica_size": 2, **settings}) as m:
            return body(name, m)

    return dict(zip("ab", in_threads(lambda: run("a"), lambda: run("b"))))


def build(into, command="lighthouse"):
    go = shutil.which("go")
    if go is None:
        pytest.skip(f"no go, which builds {command}")
    binary = os.path.join(into, command)
    subprocess.run([go, "build", "-o", binary, f"./cmd/{command}"], cwd=ROOT, check=True)
    return binary


def same_after_each_step(replicas):
    """All replicas have the same bytes and position in the data after every step that they made."""
    after = {}
    for r in replicas:
        for s in r.steps():
            assert after.setdefault(s.number, (s.at, s.sha)) == (s.at, s.sha), f"{r.name} differs after step {s.number}"
    numbers = sorted(after)
    missing = set(range(1, numbers[-1] + 1)) - set(numbers)
    assert not missing, f"nobody made steps {sorted(missing)}"
    return numbers[-1]
