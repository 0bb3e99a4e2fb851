"""A rendezvous store of the library, as torch's groups take one."""

import base64
import json
from datetime import timedelta

import torch.distributed as dist

from skerry import _lib
from skerry._work import microseconds


class Store(dist.Store):
    """A store behind a handle of the library. Calls block until there is an answer, the store's timeout is over, or the
    store is closed, as the epoch is over that it belongs to."""

    def __init__(self, handle, timeout=timedelta(seconds=60)):
        super().__init__()
        self._handle, self._limit = handle, timeout

    def _call(self, verb, timeout=None, **fields):
        request = json.dumps({"verb": verb, **{k: base64.b64encode(v).decode() if isinstance(v, bytes) else v for k, v in fields.items()}})
        call = _lib.store_call(self._handle, request, microseconds(timeout or self._limit))
        try:
            said, error = _lib.manager_answer(call)
        finally:
            _lib.close(call)
        if error is not None:
            raise dist.DistStoreError(f"skerry: store: {verb} {fields.get('key') or fields.get('keys')}: {error}")
        return said

    def clone(self):
        return self

    def set(self, key, value):
        self._call("set", key=key, value=_bytes(value))

    def get(self, key):
        return base64.b64decode(self._call("get", key=key).get("value", ""))

    def add(self, key, amount):
        return self._call("add", key=key, amount=amount).get("n", 0)

    def append(self, key, value):
        self._call("append", key=key, value=_bytes(value))

    def compare_set(self, key, expected, desired):
        return base64.b64decode(self._call("compare_set", key=key, expected=_bytes(expected), value=_bytes(desired)).get("value", ""))

    def check(self, keys):
        return self._call("check", keys=list(keys)).get("yes", False)

    def wait(self, keys, timeout=None):
        self._call("wait", timeout, keys=list(keys))

    def delete_key(self, key):
        return self._call("delete", key=key).get("yes", False)

    deleteKey = delete_key  # what torch's C++ asks for

    def multi_get(self, keys):
        return [self.get(k) for k in keys]

    def multi_set(self, keys, values):
        for k, v in zip(keys, values):
            self.set(k, v)

    def has_extended_api(self):
        return True

    def set_timeout(self, timeout):
        self._limit = timeout

    @property
    def timeout(self):
        return self._limit


def _bytes(value):
    return value.encode() if isinstance(value, str) else bytes(value)
