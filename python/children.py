"""Tests of others, run in child processes: what suites.py and torchft_suites.py have in common."""

import collections
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
_CODE = (
    "import os, sys; os.dup2(int(sys.argv.pop()), 3); sys.path.insert(0, sys.argv.pop()); import importlib, json;"
    "importlib.import_module(sys.argv.pop()).child(*json.loads(sys.argv.pop()))"
)


def run(module, args, limit, log, what, *, again=False, env=None):
    """What came of each test, by name: module.child(*args, done) runs those that are not done, and tells of each in a line of
    JSON on descriptor 3, before it ("test") and behind it ("came", "why" and "took" too). A process that says
    nothing for limit seconds, or dies, with a test is made anew for the next. One that dies between two is the end of the program, but
    where again is set, and some test was done since it was made: then it is made anew, too. what names all of it."""
    results = {}
    while True:
        before = len(results)
        process, lines = _start([json.dumps([*args, list(results)]), module], log, env)
        now, why, began = None, "its process died", time.monotonic()
        while True:
            try:
                line = lines.get(timeout=limit)
            except queue.Empty:
                why = f"took longer than {limit} s"
                break
            if line is None:
                break
            said = json.loads(line)
            now, began = said["test"], time.monotonic()
            if "came" in said:
                results[now], now = said, None
        if now is None and why == "its process died":
            process.wait()
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        if now is not None:
            results[now] = {"test": now, "came": "failed", "why": why, "took": time.monotonic() - began}
        elif process.returncode == 0:
            return results
        elif not again or len(results) == before:
            raise SystemExit(f"{what} ended with {process.returncode}: see {log.name}")


def _start(args, log, env):
    """A child process, and a queue of the lines that it tells; behind the last is None."""
    read, write = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", _CODE, *args, HERE, str(write)], env={**os.environ, **(env or {})},
        pass_fds=[write], stdout=log, stderr=log, start_new_session=True,
    )
    os.close(write)
    lines = queue.Queue()

    def follow():
        with os.fdopen(read) as f:
            for line in f:
                lines.put(line)
        lines.put(None)

    threading.Thread(target=follow, daemon=True).start()
    return process, lines


def show(name, of, results):
    """Prints and returns how many passed, failed and were skipped, and prints why."""
    by = collections.Counter(r["came"] for r in results.values())
    whys = collections.Counter(r["why"] for r in results.values() if r["came"] == "skipped")
    took = sum(r["took"] for r in results.values())
    print(f"{name}, {of}: {by['passed']} passed, {by['failed']} failed, {by['skipped']} skipped, {took:.0f} s", flush=True)
    for why, n in whys.most_common():
        print(f"    skipped {n}: {why}")
    return by


def last(result):
    """The line that says most: the last of a traceback that names an error."""
    lines = [line for line in result["why"].strip().splitlines() if line.strip() and not line.startswith("frame #")]
    named = [line for line in lines if re.match(r"(E +)?[\w.]*(Error|Exception|Aborted|Timeout)\b", line)]
    return (named or lines or [""])[-1][:300]
