"""Kills replicas of examples/digits.py, and checks that nothing was lost.

    python python/kills.py [--warm] [kills] [seconds of a step] [path of the lighthouse]

Three replicas train; one after the other is killed by SIGKILL and started again. At the end: from the kill to the
next commit of the others, the share of the time that committed steps took, and whether all replicas had the same
bytes after every step. --warm: a replica that starts is forked of a process that has imported torch, which takes
seconds of a processor: more kills in the same time.
"""

import os
import runpy
import signal
import sys
import tempfile
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tests"))
import trainers  # noqa: E402


class Fork:
    """What subprocess.Popen is of a program, of a child of this process. It imports skerry by itself: a fork of a process
    that has may use no group."""

    def __init__(self, program, args, env):
        assert "skerry" not in sys.modules
        self.returncode, (out, into) = None, os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.dup2(into, 1)
            os.dup2(into, 2)
            os.closerange(3, 100)
            os.environ.update(env)
            sys.argv = [program, *args]
            try:
                runpy.run_path(program, run_name="__main__")
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)  # before its time: it is killed else
        os.close(into)
        self.stdout = os.fdopen(out, "rb")

    def poll(self):
        if self.returncode is None and (ended := os.waitpid(self.pid, os.WNOHANG))[0]:
            self.returncode = os.waitstatus_to_exitcode(ended[1])
        return self.returncode

    def kill(self):
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self):
        if self.poll() is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Warm(trainers.Replica):
    """A replica that is forked."""

    def _start(self, program, args, env):
        return Fork(program, args, env)


def warm():
    import torch

    torch.optim.AdamW([torch.zeros(1)])  # which imports more of torch
    return Warm


class Run:
    def __init__(self, light, step, replica=trainers.Replica):
        self.light, self.step, self.replica = light, step, replica
        self.after, self.steps, self.wrong = {}, [], []  # bytes by step; when each came
        self.live = {name: self.start(name) for name in "abc"}

    def start(self, name):
        return self.replica(self.light, name, "--steps", 10**9, "--step-time", self.step)

    def look(self):
        """Takes what the replicas have said since the last look."""
        new = []
        for r in self.live.values():
            for s in r.steps():
                if self.after.setdefault(s.number, (s.at, s.sha)) != (s.at, s.sha):
                    self.wrong.append((r.name, s))
                if not self.steps or s.number > self.steps[-1][0]:
                    self.steps.append((s.number, time.monotonic()))
                    new.append(s)
            r.output = r.output[r.output.rfind("\n") + 1 :]
            if r.process.poll() is not None:
                raise SystemExit(f"{r.name} ended with {r.process.returncode}: {r.output}")
        return new

    def until(self, participants, more=1):
        """Waits until steps of so many participants have come."""
        end = time.monotonic() + trainers.PATIENCE
        while more > 0:
            more -= sum(s.participants == participants for s in self.look())
            time.sleep(0.0005)
            if time.monotonic() > end:
                raise SystemExit(f"no step of {participants} within {trainers.PATIENCE} s: it hangs")


def main(kills=10, step=0.05, lighthouse=None, replica=trainers.Replica):
    with tempfile.TemporaryDirectory() as d:
        light = trainers.Lighthouse(lighthouse or trainers.build(d), "--probation-after", "0")
        run, took, lost = Run(light, step, replica), [], 0.0
        try:
            for i in range(kills):
                run.until(3, 5)
                name = "abc"[i % 3]
                last = run.steps[-1][1]
                killed = time.monotonic()
                run.live.pop(name).close()
                run.until(2)
                took.append(time.monotonic() - killed)
                lost += run.steps[-1][1] - last - step  # beyond a step's time
                run.live[name] = run.start(name)
            run.until(3, 5)
        finally:
            for r in run.live.values():
                r.close()
            light.close()
    took.sort()
    n, span = len(run.steps), run.steps[-1][1] - run.steps[0][1]
    print(f"{kills} kills, steps of {step * 1e3:.0f} ms: kill to next commit p50 {took[len(took) // 2] * 1e3:.0f} ms, max {took[-1] * 1e3:.0f}; "
          f"{n} steps, {lost / kills * 1e3:.0f} ms lost to each kill, {span / n * 1e3:.1f} ms between two commits")
    if run.wrong:
        raise SystemExit(f"{len(run.wrong)} steps after which replicas differ: {run.wrong[:3]}")
    print("the same bytes on all replicas after every step")


if __name__ == "__main__":
    said = [a for a in sys.argv[1:] if a != "--warm"]
    main(*(t(a) for t, a in zip((int, float, str), said)), **({"replica": warm()} if "--warm" in sys.argv else {}))
