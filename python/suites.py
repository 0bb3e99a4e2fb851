"""PyTorch's own tests, with Skerry in Gloo's place.

    python python/suites.py [--peer] [--world N] [--only REGEX] [--source DIR] [--out DIR] [suite ...]

The suite "distributed" is torch.testing._internal.distributed.distributed_test of the torch that is installed, with
three ranks, as upstream's run_test.py runs it for Gloo. All others are files of PyTorch's sources, by their paths in
--source. Nothing of theirs is copied: a test's text is read, Gloo's name gets ours beside it or instead of it, and it
runs under its own name. --peer runs each with Gloo too, before. Printed are the counts for each
backend, why tests were skipped, and each test that Gloo passes and Skerry does not. The status is 1 if there are such, and
without --peer if any test fails.

The ranks are forked from a process that has torch, but not yet our library, which is loaded after the fork.
"""

import argparse
import importlib.util
import json
import multiprocessing
import os
import re
import sys
import tempfile
import time
import unittest

import children

LIMIT = int(os.environ.get("SUITES_LIMIT", "60"))  # seconds for a test; reaching it is a failure

# What upstream asks of Gloo in truth, not of a backend for the CPU: test -> why.
_MONITORED = "torch.distributed.monitored_barrier takes no group but Gloo's: skerry.monitored_barrier is ours"
GLOO_ONLY = {
    "test_monitored_barrier_gloo": _MONITORED,
    "test_monitored_barrier_gloo_subgroup": _MONITORED,
    "test_monitored_barrier_gloo_rank_0_timeout": _MONITORED,
    "test_monitored_barrier_failure_order": _MONITORED,
    "test_monitored_barrier_wait_all_ranks": _MONITORED,
    "test_monitored_barrier": _MONITORED,
    **dict.fromkeys([
        "test_allgather_checks", "test_allgather_coalesced_checks", "test_allreduce_checks", "test_allreduce_coalesced_checks",
        "test_broadcast_checks", "test_gather_checks", "test_reduce_checks", "test_scatter_checks", "test_sparse_allreduce_checks",
    ], "the words of Gloo's refusals; ours are others"),
    **dict.fromkeys(
        [
            "test_allreduce_basics", "test_broadcast_basics", "test_sparse_allreduce_basics", "test_allgather_basics",
            "test_allgather_inference_mode", "test_allgather_noncontiguous_input",
        ],
        "several tensors of one rank are as several ranks' to Gloo, for several GPUs of a process; to ours they are many operations",
    ),
    "test_set_gloo_pg_timeout": "the options of Gloo's own class",
    "test_init_process_group_for_all_backends": "a group that is Python's has its own name, as upstream's comment has it",
}


# In the suite "distributed" conditions name Gloo, and other things that a test makes of Gloo are to stay so.
BESIDE = [
    (r'BACKEND == "gloo"', 'BACKEND in ("gloo", "skerry")'),
    (r'BACKEND != "gloo"', 'BACKEND not in ("gloo", "skerry")'),
    (r'require_backend_is_available\(\{"gloo"\}\)', 'require_backend_is_available({"gloo", "skerry"})'),
    (r'BACKEND != "mpi", "Only MPI', 'BACKEND not in ("mpi", "gloo", "skerry"), "Only MPI'),  # which Gloo had not then
    (r"^    dist\.Backend\.GLOO,$", '    dist.Backend.GLOO, "skerry",'),  # those whose operations a profiler sees
]

# All other suites make groups of Gloo.
INSTEAD = [(r'"gloo"', '"skerry"'), (r"\bcpu:gloo\b", "cpu:skerry"), (r"\b(dist|c10d|torch\.distributed)\.Backend\.GLOO\b", '"skerry"')]

# Gloo's own tests make it without a backend's name, and have it make a device that they do not use.
GLOO_ITSELF = [(r"^( +)backend\.create_device\(.*\)$", r"\1pass"), (r"c10d\.ProcessGroupGloo\(store, self\.rank, self\.world_size, opts\)", "__import__('suites').group(store, self.rank, self.world_size)")]

# Some upstream runs on GPUs alone, though they would do on the CPU.
ON_CPU = [(r'^DEVICE = "cuda"$', 'DEVICE = "cpu"')]

DISTRIBUTED = "torch.testing._internal.distributed.distributed_test"
HELPERS = ["torch.testing._internal.distributed._tensor.common_dtensor", "torch.testing._internal.common_fsdp"]


def load(name, path, rules):
    """A module made from its own text as rules rewrite it."""
    path = path or importlib.util.find_spec(name).origin
    with open(path) as f:
        text = f.read()
    for pattern, ours in rules:
        text = re.sub(pattern, ours, text, flags=re.MULTILINE)
    module = sys.modules[name] = importlib.util.module_from_spec(importlib.util.spec_from_file_location(name, path))
    exec(compile(text, path, "exec"), module.__dict__)
    return module


def group(store, rank, size):
    """A group as Gloo's own tests make theirs."""
    import torch.distributed as dist

    dist.init_process_group("skerry", store=store, rank=rank, world_size=size)
    return dist.group.WORLD


def tests_of(suite, backend, source):
    """The tests of a suite, in a process that is to run them."""
    import torch.distributed as dist
    from torch.testing._internal import common_distributed as common

    for feature in ("ddp", "subgroup", "cuda", "gpu", "plugin"):
        common.DistTestCases.backend_feature[feature].add("skerry")
    common.TIMEOUT_DEFAULT = LIMIT
    common.TIMEOUT_OVERRIDE.clear()

    class Rank(multiprocessing.get_context("fork").Process):
        def run(self):
            if backend == "skerry":
                import skerry  # noqa: F401
            super().run()

    def fork(test):
        test._start_processes(Rank)

    def end(test):
        for p in test.processes:
            p.kill()
            p.join()
        down(test)

    case = common.MultiProcessTestCase
    case._spawn_processes, down, case.tearDown = fork, case.tearDown, end
    if suite == "distributed":
        module = load(DISTRIBUTED, None, BESIDE)

        class TestDistBackendWithSpawn(module.TestDistBackend, module.DistributedTest._DistTestBase):
            def setUp(self):
                super().setUp()
                module.INIT_METHOD = os.environ["INIT_METHOD"]  # which a process that is spawned would read anew
                self._spawn_processes()

        cases = unittest.defaultTestLoader.loadTestsFromTestCase(TestDistBackendWithSpawn)
    else:
        rules = ON_CPU
        if backend == "skerry":
            rules = ON_CPU + INSTEAD + GLOO_ITSELF
            common.DistributedTestBase.backend = lambda test, device: "skerry"
            dist.Backend.default_device_backend_map["cpu"] = "skerry"
        for helper in HELPERS:
            load(helper, None, rules)
        path = os.path.join(source, suite)
        sys.path.insert(0, os.path.dirname(path))
        cases = unittest.defaultTestLoader.loadTestsFromModule(load("suite_" + re.sub(r"\W", "_", suite), path, rules))

    def flat(tests):
        for t in tests:
            yield from flat(t) if isinstance(t, unittest.TestSuite) else [t]

    # Tests whose ranks are threads, or that have none, are of no backend.
    return {".".join(t.id().split(".")[-2:]): t for t in flat(cases) if isinstance(t, case)}


def child(suite, backend, world, source, only, done):
    """Runs the tests that are not done, and tells of each in a line on descriptor 3."""
    os.environ.update(BACKEND=backend, WORLD_SIZE=str(world), OMP_NUM_THREADS="1", INIT_METHOD="file://")
    out = os.fdopen(3, "w", buffering=1)
    for name, test in tests_of(suite, backend, source).items():
        if name in done or not re.search(only, name):
            continue
        out.write(json.dumps({"test": name}) + "\n")
        if backend == "skerry" and (why := GLOO_ONLY.get(name.split(".")[-1])):
            out.write(json.dumps({"test": name, "came": "skipped", "why": why, "took": 0}) + "\n")
            continue
        began, result = time.monotonic(), unittest.TestResult()
        test.run(result)
        bad = result.failures + result.errors
        came = "failed" if bad else "skipped" if result.skipped else "passed"
        why = bad[0][1] if bad else result.skipped[0][1] if result.skipped else ""
        out.write(json.dumps({"test": name, "came": came, "why": why, "took": time.monotonic() - began}) + "\n")


def main():
    flags = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    flags.add_argument("suite", nargs="*", default=["distributed"], help="\"distributed\", or paths in the sources")
    flags.add_argument("--peer", action="store_true", help="with Gloo too")
    flags.add_argument("--world", type=int, default=3, help="ranks of the suite \"distributed\"; some of its tests want 4, some 8")
    flags.add_argument("--only", default="", help="tests whose names have this")
    flags.add_argument("--source", default="", help="PyTorch's sources")
    flags.add_argument("--out", default=tempfile.mkdtemp(prefix="suites-"), help="where logs and results go")
    flags.add_argument("--backends", default="", help=argparse.SUPPRESS)
    opts = flags.parse_args()
    import torch

    os.makedirs(opts.out, exist_ok=True)
    print(f"torch {torch.__version__}; logs are in {opts.out}")
    bad = 0
    backends = opts.backends.split(",") if opts.backends else ["gloo", "skerry"] if opts.peer else ["skerry"]
    for name in opts.suite:
        of = {}
        for backend in backends:
            stem = os.path.join(opts.out, f"{re.sub('[^a-z0-9_]', '-', name.removesuffix('.py'))}-{backend}")
            with open(stem + ".log", "w") as log:
                args = [name, backend, opts.world, opts.source, opts.only]
                of[backend] = children.run("suites", args, LIMIT + 30, log, f"{name} with {backend}")
            with open(stem + ".json", "w") as f:
                json.dump(of[backend], f, indent=1)
            children.show(name, backend, of[backend])
        peer = of.get("gloo", {})
        for test, r in of.get("skerry", {}).items():
            if r["came"] == "failed" and peer.get(test, r)["came"] != "passed":
                print(f"  failed{' with both' if peer else ''}: {test}: {children.last(r)}")
            elif r["came"] != "passed" and peer.get(test, {"came": ""})["came"] == "passed":
                print(f"  {r['came']}, and Gloo passes: {test}: {children.last(r)}")
            bad += r["came"] == "failed" and peer.get(test, {"came": "passed"})["came"] == "passed"
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
