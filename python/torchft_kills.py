"""Kills replicas that train under torchft's Manager: what a death costs with torchft's parts, and with ours in their place.

    python python/torchft_kills.py [--kills 6] [--step 0.05] [--skerry PATH] [--lighthouse PATH] [theirs|group|all ...]

Three replicas of tests/torchft_trainer.py; one after the other is killed by SIGKILL and started again. theirs: torchft alone,
with ProcessGroupGloo. group: skerry.torchft.ProcessGroup, and torchft's manager and lighthouse. all: ours for each of the
three. Lighthouses wait for a tenth of a second for who does not join, as that of torchft's tests does; by the default of its
program, as of ours, it would be until the dead one's beats have been missing for five seconds. Printed are, from the kill, when the first of the others discards a step, and when the next step is committed.
"""

import argparse
import os
import re
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "tests"))
import kills  # noqa: E402
import trainers  # noqa: E402

os.environ["RUST_LOG"] = "error"  # torchft's lighthouse prints each step
TRAINER = os.path.join(HERE, "tests/torchft_trainer.py")
WITH = {"theirs": ["gloo"], "group": [], "all": ["manager"]}


class Torchft:
    """A lighthouse of torchft's, in this process, with its own defaults."""

    def __init__(self):
        from torchft._torchft import LighthouseServer

        self._server = LighthouseServer(bind="[::]:0", min_replicas=1)
        self.address = self._server.address().removeprefix("http://")

    def said(self):
        return ""

    def close(self):
        self._server.shutdown()


class Run(kills.Run):
    def __init__(self, light, step, args):
        self.args, self.discarded = args, []
        super().__init__(light, step)

    def start(self, name):
        return trainers.Replica(self.light, name, *self.args, f"endless={self.step}", program=TRAINER)

    def look(self):
        for r in self.live.values():
            if re.search(r"step \d+ discarded", r.read()):
                self.discarded.append(time.monotonic())
        return super().look()


def measure(parts, n, step, skerry, lighthouse):
    os.environ["SKERRY"] = skerry
    light = trainers.Lighthouse(lighthouse, "--probation-after", "0", "--join_timeout_ms", "100") if parts == "all" else Torchft()
    run, knew, took = None, [], []
    try:
        run = Run(light, step, WITH[parts])
        for i in range(n):
            run.until(3, 5)
            run.discarded.clear()
            name = "abc"[i % 3]
            killed = time.monotonic()
            run.live.pop(name).close()
            run.until(2)
            took.append(time.monotonic() - killed)
            knew += [at - killed for at in run.discarded[:1]]
            print(f"    {parts}: discarded {[round(1e3 * (at - killed)) for at in run.discarded[:1]]}, committed {took[-1] * 1e3:.0f} ms", flush=True)
            run.live[name] = run.start(name)
        run.until(3, 2)
    finally:
        for r in run.live.values() if run else ():
            r.close()
        light.close()
    print(f"{parts}: {n} kills, steps of {step * 1e3:.0f} ms: a step discarded p50 {middle(knew)} ms of {len(knew)}, "
          f"the next committed p50 {middle(took)}; {len(run.wrong)} steps after which replicas differ", flush=True)


def middle(times):
    times = sorted(times)
    return f"{times[len(times) // 2] * 1e3:.0f}, max {times[-1] * 1e3:.0f}" if times else "none"


def main():
    flags = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    flags.add_argument("parts", nargs="*", help=", ".join(WITH))
    flags.add_argument("--kills", type=int, default=6)
    flags.add_argument("--step", type=float, default=0.05)
    flags.add_argument("--skerry", default="")
    flags.add_argument("--lighthouse", default="")
    opts = flags.parse_args()
    with tempfile.TemporaryDirectory() as d:
        skerry, lighthouse = opts.skerry, opts.lighthouse
        if "all" in (opts.parts or WITH):
            skerry, lighthouse = skerry or trainers.build(d, "skerry"), lighthouse or trainers.build(d)
        for parts in opts.parts or WITH:
            measure(parts, opts.kills, opts.step, skerry, lighthouse)


if __name__ == "__main__":
    main()
