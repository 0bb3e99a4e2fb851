"""Groups whose members change: the reconfigure functions of torch.distributed since 2.14.

    dist.init_process_group("skerry", enable_reconfigure=True, ...)
    handle = dist._get_reconfigure_handle()            # tell it to the others
    dist._reconfigure(uuid, handles).wait()            # the same uuid and handles on all of them

A reconfiguration makes the new group beside the old one and takes its place once all members are there. One
for which not all come leaves every rank with the group that it had, to try again with another uuid.
"""

import contextlib
import json
import os
import secrets
import socket
import threading
import time
import uuid
from datetime import timedelta

import torch
import torch.distributed as dist

from skerry import _lib
from skerry._group import MINUTE, TOGETHER, Group, barrier
from skerry._work import microseconds


class Reconfigurable(Group):
    """A group without members until it is reconfigured."""

    supports_reconfigure = True

    def _begin(self, rank, size, handle, timeout=None):
        super()._begin(rank, size, handle, timeout)
        self._own, self._used, self._attempt = None, set(), None
        self._member, self._closing = False, False

    def get_reconfigure_handle(self):
        """What others need to reconfigure with this member: whoever has it may join the group."""
        with self._lock:
            if self._own is None:
                token, host = secrets.token_hex(32), socket.gethostname()
                self._store, address = _lib.serve_store(os.environ.get("SKERRY_LISTEN") or own_address(), token)
                me = {"id": f"{host}:{os.getpid()}/{uuid.uuid4().hex[:12]}", "store": address, "token": token}
                self._own = json.dumps(me, sort_keys=True)
            return self._own

    def reconfigure(self, opts):
        """Starts to make a group of those whose handles are given, in the order of ranks; handles in no order are
        sorted. Returns work that ends when all of them are there, or after the timeout, or the group's own.
        Then operations that are under way in the old group fail. Hints are not looked at."""
        handles = opts.handles if isinstance(opts.handles, list) else sorted(opts.handles)
        own = self.get_reconfigure_handle()
        if own not in handles:
            raise ValueError(f"skerry: reconfigure: this member's own handle is not among the {len(handles)} given")
        if len(set(handles)) < len(handles):
            raise ValueError(f"skerry: reconfigure: a handle is twice among the {len(handles)} given")
        members = [_read(handle) for handle in handles]
        with self._lock:
            if self._closing:
                raise RuntimeError("skerry: reconfigure: the group is closed")
            if opts.uuid in self._used:
                raise RuntimeError(f"skerry: reconfigure: uuid {opts.uuid} was already used by this group, want another")
            if self._attempt is not None and not self._attempt.is_completed():
                raise RuntimeError("skerry: reconfigure: another reconfiguration is under way")
            self._used.add(opts.uuid)
            settings = {
                "store": f"{members[0]['store']}/{opts.uuid}", "token": members[0]["token"], "ids": [m["id"] for m in members],
                "rank": handles.index(own), "cluster": str(opts.uuid), "quorum": 1, "timeout_us": microseconds(self._timeout) or 0,
            }
            self._attempt = _Attempt(self, _lib.open_group(*self._kind), settings, opts.timeout or self._timeout or MINUTE)
            self._attempt.start()
        return self._attempt

    def _swap(self, attempt, rank, size):
        """Has an attempt's group take this one's place; returns the handle of the old one."""
        with self._lock:
            if self._closing:
                raise RuntimeError("skerry: reconfigure: the group is closed")
            old, self._handle = self._handle, attempt.handle
            attempt.handle = 0
            self._rank, self._size, self._member = rank, size, True
        return old

    def shutdown(self, together=TOGETHER):
        """As Group's. It ends a reconfiguration that is under way."""
        with self._lock:
            self._closing = True
        if self._attempt is not None:
            self._attempt.end()
        super().shutdown(together if self._member else None)


class _Attempt(dist._Work):
    """A reconfiguration under way."""

    def __init__(self, group, handle, settings, timeout):
        super().__init__()
        self._group, self.handle, self._settings, self._timeout = group, handle, settings, timeout
        self._future, self._ended = torch.futures.Future(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="skerry-reconfigure", daemon=True)
        self.start = self._thread.start

    def _run(self):
        until = time.monotonic() + self._timeout.total_seconds()
        handle, error = self.handle, None
        try:
            _lib.configure(handle, json.dumps(self._settings), microseconds(self._timeout))
            # Who is done may leave at once, and must not break the group of who is not.
            if (error := barrier(handle, timedelta(seconds=max(until - time.monotonic(), 0.001)))) is None:
                handle = self._group._swap(self, self._settings["rank"], len(self._settings["ids"]))
        except Exception as e:
            error = e
        _lib.close(handle)  # the old group's, or that of an attempt that failed
        self._ended.set()
        if error is None:
            self._future.set_result(None)
        else:
            self._future.set_exception(error)

    def end(self):
        """Has it fail now, unless it is done."""
        if self.handle:
            _lib.close(self.handle)
        self._ended.wait()

    def wait(self, timeout=timedelta(0)) -> bool:
        left = timeout.total_seconds() or float("inf")
        while not self._ended.wait(min(left, 0.1)) and left > 0:  # in slices: Ctrl-C comes between
            left -= 0.1
        if not self._ended.is_set():
            raise RuntimeError(f"skerry: reconfigure: timed out: it is not done within {timeout}")
        self._future.wait()
        return True

    def is_completed(self) -> bool:
        return self._ended.is_set()

    def result(self):
        return []

    def synchronize(self):
        self.wait()

    def get_future(self):
        return self._future


def _read(handle):
    try:
        m = json.loads(handle)
        if {type(m[k]) for k in ("id", "store", "token")} == {str}:
            return m
    except (ValueError, TypeError, KeyError):
        pass
    raise ValueError(f"skerry: reconfigure: {handle[:80]!r} is no handle of a Skerry group")


def own_address():
    """This host's address on the way to MASTER_ADDR. Without that, the one of its name; where the name has none, the one
    from which it reaches other hosts; where it reaches none, loopback's."""
    if master := os.environ.get("MASTER_ADDR"):
        return _source(master)
    for to in (socket.gethostname(), "192.0.2.1"):  # the latter is of no host, and nothing is sent
        with contextlib.suppress(OSError):
            return _source(to)
    return "127.0.0.1"


def _source(to):
    """The address from which this host sends to another."""
    with socket.socket(socket.AF_INET6 if ":" in to else socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect((to, 9))
        return s.getsockname()[0]
