"""Replicas of a training, each a process, and the lighthouse that they meet at."""

import collections
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
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
    """A lighthouse on a port that the system chose: nothing else can have taken it meanwhile."""

    def __init__(self, binary, *args):
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen([binary, "--bind", "127.0.0.1:0", *args], stdout=subprocess.DEVNULL, stderr=self._log)
        try:
            self.address = self._served()
        except BaseException:
            self.close()
            raise

    def _served(self):
        end = time.monotonic() + PATIENCE
        while not (page := re.search(r"page=https?://(\S+?)/\s", self.said())):
            if self._process.poll() is not None or time.monotonic() > end:
                pytest.fail(f"the lighthouse serves nothing (status {self._process.poll()}): {self.said()[-2000:]}")
            time.sleep(0.01)
        return page[1]

    def said(self):
        return os.pread(self._log.fileno(), 1 << 20, 0).decode(errors="replace")  # a seek would move the lighthouse, too

    def close(self):
        self._process.kill()
        self._process.wait()
        self._log.close()


def port():
    """A free port that the system gives to no client, as long as there are such: one that it chose itself may be a
    client's before it is used."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as f:
        low, high = map(int, f.read().split())
    outside = [*range(10000, low), *range(high + 1, 65536)] or range(10000, 65536)
    for p in random.choices(outside, k=100):
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", p))
            except OSError:
                continue
            return p
    pytest.fail("no free port")


class Replica:
    """A process of examples/digits.py, or of another program."""

    def __init__(self, lighthouse, name, *args, program=DIGITS):
        self.name, self._lighthouse = name, lighthouse
        self.process = self._start(program, list(map(str, args)), {"REPLICA_GROUP_ID": name, "SKERRY_LIGHTHOUSE": lighthouse.address})
        os.set_blocking(self.process.stdout.fileno(), False)
        self.output = ""

    def _start(self, program, args, env):
        """The process, with variables besides those of this one."""
        return subprocess.Popen([sys.executable, program, *args], env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def read(self):
        while more := self.process.stdout.read():
            self.output += more.decode(errors="replace")
        return self.output

    def steps(self):
        return [Step(int(m[1]), int(m[2]), int(m[3]), m[4]) for m in _step.finditer(self.read())]

    def until(self, what, deadline=PATIENCE):
        """Waits until the output has something that matches."""
        self._until(lambda: re.search(what, self.read()), repr(what), deadline)

    def reaches(self, participants, beyond=0):
        """Waits for a step of so many participants beyond a step, and returns its number."""

        def found():
            return next((s.number for s in self.steps() if s.number > beyond and s.participants == participants), None)

        return self._until(found, f"a step beyond {beyond} with {participants}", PATIENCE)

    def _until(self, found, what, deadline):
        end = time.monotonic() + deadline
        while not (out := found()):
            if self.process.poll() is not None and not (out := found()):
                pytest.fail(f"{self.name} ended with {self.process.returncode} before {what}: {self._tail()}")
            if time.monotonic() > end:
                pytest.fail(f"{self.name} has not said {what} after {deadline} s: {self._tail()}")
            time.sleep(0.01)
        return out

    def _tail(self):
        return f"{self.read()[-2000:]}\nthe lighthouse: {self._lighthouse.said()[-2000:]}"

    def end(self, status=0):
        """Waits for the process to end well."""
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)
            pytest.fail(f"{self.name} does not end: {self._tail()}")
        self.read()
        assert code == status, f"{self.name} ended with {code}: {self._tail()}"

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
