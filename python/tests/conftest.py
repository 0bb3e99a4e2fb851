"""Worlds of processes for the tests."""

import multiprocessing
import os
import queue
import signal
import tempfile
import traceback

import pytest
import trainers

PATIENCE = 180  # seconds; reaching it is a failure

# A job that a shell without a terminal runs in the background ignores SIGINT, and so would all
# processes that the tests start and interrupt. Caught signals are as usual again in those.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGCONT, signal.SIGUSR1})


# All are on this host, whose name may have no address.
os.environ.setdefault("SKERRY_LISTEN", "127.0.0.1")


def _main(results, store, rank, size, body, args):
    import torch
    import torch.distributed as dist

    import skerry  # noqa: F401

    torch.set_num_threads(1)  # else each process of a world has as many threads as there are cores
    try:
        dist.init_process_group("skerry", init_method=f"file://{store}", rank=rank, world_size=size)
        out = body(rank, size, *args)
        if dist.is_initialized():
            dist.destroy_process_group()
        results.put((rank, out, None))
    except BaseException:
        results.put((rank, None, traceback.format_exc()))
        raise


class World:
    """size processes in one group, each of which runs body(rank, size, *args)."""

    def __init__(self, size, body, *args):
        context = multiprocessing.get_context("spawn")
        self._dir = tempfile.TemporaryDirectory()
        self.results, self.size = context.Queue(), size
        store = os.path.join(self._dir.name, "store")
        self.processes = [
            context.Process(target=_main, args=(self.results, store, rank, size, body, args)) for rank in range(size)
        ]
        for p in self.processes:
            p.start()

    def get(self, count=None):
        """What the processes returned, by rank; a failure of one is the test's."""
        out = {}
        for _ in range(self.size if count is None else count):
            try:
                rank, value, error = self.results.get(timeout=PATIENCE)
            except queue.Empty:
                pytest.fail(f"ranks {sorted(out)} of {self.size} have ended within {PATIENCE} s")
            if error is not None:
                pytest.fail(f"rank {rank}: {error}")
            out[rank] = value
        return out

    def close(self):
        for p in self.processes:
            p.kill()
            p.join()
        self._dir.cleanup()


@pytest.fixture
def world():
    """world(size, body, *args) starts one, which ends with the test."""
    made = []

    def start(size, body, *args):
        made.append(World(size, body, *args))
        return made[-1]

    yield start
    for w in made:
        w.close()


@pytest.fixture(scope="session")
def lighthouse_binary(tmp_path_factory):
    return trainers.build(tmp_path_factory.mktemp("bin"))


@pytest.fixture(scope="session")
def skerry_binary(tmp_path_factory):
    return trainers.build(tmp_path_factory.mktemp("bin"), "skerry")


@pytest.fixture
def lighthouse(lighthouse_binary):
    light = trainers.Lighthouse(lighthouse_binary)
    yield light
    light.close()


@pytest.fixture
def replica(lighthouse):
    """replica(name, *args) starts one, which ends with the test."""
    made = []

    def start(name, *args, **options):
        made.append(trainers.Replica(lighthouse, name, *args, **options))
        return made[-1]

    yield start
    for r in made:
        r.close()
