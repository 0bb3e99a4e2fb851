"""torchft's own tests, with Skerry in the place of its parts.

    python python/torchft_suites.py [--with theirs,group,all] [--only REGEX] [--skerry PATH] [--lighthouse PATH] [--out DIR] [--tests DIR] [file ...]

The files are those in torchft's folder, --tests, or where the installed one lies: its wheel has them. Each runs with torchft alone
(theirs), with skerry.torchft.ProcessGroup for ProcessGroupGloo (group), and with our manager and lighthouse, too (all).
Nothing of theirs is copied or rewritten; tests of its groups in child processes are left out. Printed are the counts, why tests were skipped, and each test that passes with theirs and
not with ours. The status is 1 if there are such.

"all" wants the programs skerry and lighthouse: --skerry, --lighthouse, else they are built.
"""

import argparse
import collections
import json
import os
import re
import sys
import tempfile

import children

sys.path.insert(0, os.path.join(children.HERE, "tests"))

LIMIT = 120  # seconds for a test; reaching it is a failure
WITH = ("theirs", "group", "all")
ENVIRONMENT = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}  # names come from the order in a set

# Tests of torchft's groups in child processes: there is nothing of ours in them.
THEIRS_ALONE = "Baby|baby"


def lighthouse(binary):
    """A class in the place of torchft's LighthouseServer, which starts our program."""
    import trainers

    class LighthouseServer:
        def __init__(self, bind, min_replicas, join_timeout_ms=None, quorum_tick_ms=None, heartbeat_timeout_ms=None):
            join_timeout_ms = join_timeout_ms or 100  # its class's own; its program has a minute, and ours ten seconds
            flags = {"min_replicas": min_replicas, "join_timeout_ms": join_timeout_ms, "heartbeat_timeout_ms": heartbeat_timeout_ms}
            self._light = trainers.Lighthouse(binary, *[f"--{k}={v}" for k, v in flags.items() if v is not None])

        def address(self):
            return f"http://{self._light.address}"

        def shutdown(self):
            self._light.close()

    return LighthouseServer


def replace(parts, skerry_binary, lighthouse_binary):
    """Puts ours in torchft's place, before any of its tests is imported."""
    import torchft
    from torchft import _torchft, coordination, ddp, process_group

    if parts == "theirs":
        return
    import skerry.torchft as ours

    for module in (process_group, torchft, ddp):
        module.ProcessGroupGloo = ours.ProcessGroup
    if parts == "all":
        ours.use_manager(skerry_binary)
        _torchft.LighthouseServer = coordination.LighthouseServer = lighthouse(lighthouse_binary)


class Tell:
    """A plugin of pytest that leaves tests out, and tells of each of the others in a line."""

    def __init__(self, out, done, only):
        self.out, self.done, self.only, self.now = out, done, only, {}

    def say(self, **what):
        self.out.write(json.dumps(what) + "\n")

    def pytest_collection_modifyitems(self, items):
        names = (i.nodeid for i in items)
        wanted = {n for n in names if n not in self.done and re.search(self.only, n) and not re.search(THEIRS_ALONE, n)}
        items[:] = [i for i in items if i.nodeid in wanted]

    def pytest_collectreport(self, report):
        if report.failed:
            self.say(test=report.nodeid, came="failed", why=str(report.longrepr), took=0)

    def pytest_runtest_logstart(self, nodeid):
        self.now = {"test": nodeid, "came": "passed", "why": "", "took": 0.0}
        self.say(test=nodeid)

    def pytest_runtest_logreport(self, report):
        self.now["took"] += report.duration
        if report.failed and self.now["came"] != "failed":
            self.now.update(came="failed", why=str(report.longrepr))
        elif report.skipped:
            self.now.update(came="skipped", why=report.longrepr[2].removeprefix("Skipped: "))

    def pytest_runtest_logfinish(self):
        self.say(**self.now)


def child(path, parts, skerry_binary, lighthouse_binary, only, done):
    """Runs the tests of a file that are not done, and tells of each on descriptor 3."""
    import pytest

    replace(parts, skerry_binary, lighthouse_binary)
    tell = Tell(os.fdopen(3, "w", buffering=1), done, only)
    status = pytest.main(["-p", "no:cacheprovider", "-p", "no:timeout", "--rootdir", os.path.dirname(path), path], plugins=[tell])
    os._exit(0 if status in (0, 1, 5) else status)  # threads that hang would hold it up


def main():
    flags = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    flags.add_argument("file", nargs="*", help="paths in the folder; none: all that end with _test.py")
    flags.add_argument("--tests", default="", help="torchft's folder")
    flags.add_argument("--with", dest="parts", default=",".join(WITH), help="what to run them with")
    flags.add_argument("--only", default="", help="tests whose names have this")
    flags.add_argument("--skerry", default="")
    flags.add_argument("--lighthouse", default="")
    flags.add_argument("--out", default=tempfile.mkdtemp(prefix="torchft-suites-"), help="where logs and results go")
    opts = flags.parse_args()
    import torch
    import torchft
    import trainers

    folder = os.path.abspath(opts.tests or os.path.dirname(torchft.__file__))
    files = opts.file or sorted(
        os.path.relpath(os.path.join(at, f), folder) for at, _, names in os.walk(folder) for f in names if f.endswith("_test.py")
    )
    parts = opts.parts.split(",")
    if not set(parts) <= set(WITH):
        raise SystemExit(f"--with {opts.parts}, want some of {', '.join(WITH)}")
    os.makedirs(opts.out, exist_ok=True)
    binaries = [opts.skerry, opts.lighthouse]
    if "all" in parts:
        binaries = [given or trainers.build(opts.out, name) for given, name in zip(binaries, ("skerry", "lighthouse"))]
    print(f"torch {torch.__version__}; tests of {folder}; logs are in {opts.out}", flush=True)
    bad, sums = 0, {p: collections.Counter() for p in parts}
    for name in files:
        of = {}
        for p in parts:
            path = os.path.join(opts.out, f"{name.replace(os.sep, '-')}-{p}")
            with open(path + ".log", "w") as log:
                file = os.path.join(folder, name)
                args = [file, p, *binaries, opts.only]
                of[p] = children.run("torchft_suites", args, LIMIT, log, f"{file} with {p}", again=True, env=ENVIRONMENT)
            with open(path + ".json", "w") as f:
                json.dump(of[p], f, indent=1)
            sums[p] += children.show(name, p, of[p])
        peer = of.get("theirs", {})
        for p in parts:
            for test, r in of[p].items():
                theirs = peer.get(test, {"came": "unknown"})["came"]
                if r["came"] == "failed" and (p == "theirs" or theirs != "passed"):
                    print(f"  {p} fails (theirs: {theirs}): {test}: {children.last(r)}")
                elif r["came"] != "passed" and theirs == "passed":
                    print(f"  {r['came']} with {p}, and theirs passes: {test}: {children.last(r)}")
                    bad += r["came"] == "failed"
    for p, by in sums.items():
        print(f"{p}: {by['passed']} passed, {by['failed']} failed, {by['skipped']} skipped")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
