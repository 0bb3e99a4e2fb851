"""Warm spares of `skerry run --spares`: a process that waits for the place of a replica that dies."""

import json
import os
import socket

_VARIABLE = "SKERRY_SPARE"
_MAX_BYTES, _MAX_VARIABLES = 64 << 10, 64


def wait_for_place() -> None:
    """Returns at once in a process that is no spare. In a spare it blocks until the launcher gives it the place of a
    replica: REPLICA_GROUP_ID, NUM_REPLICA_GROUPS and the lighthouse's address are in os.environ then.

    Call it when all is done that does not depend on the place, before those are read; Manager's constructor calls
    it, too. SystemExit(0): the job ends without this spare. ConnectionError: the launcher is gone."""
    path = os.environ.get(_VARIABLE)
    if not path:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        try:
            s.connect(path)
        except OSError as e:
            raise ConnectionError(f"skerry: {_VARIABLE} = {path!r}, want the socket of the skerry run that has started this process, and that still runs: {e}") from e
        order = _order(s, path)
        if order.get("over"):
            raise SystemExit(0)
        os.environ.update(order["env"])
        s.sendall(b"\n")  # the place is taken
    del os.environ[_VARIABLE]


def _order(s, path):
    """The line that the launcher sends."""
    line = b""
    while not line.endswith(b"\n"):
        more = s.recv(4096)
        if not more:
            raise ConnectionError(f"skerry: no place was told at {_VARIABLE} = {path!r}: the launcher has ended")
        line += more
        if len(line) > _MAX_BYTES:
            raise ConnectionError(f"skerry: more than {_MAX_BYTES} bytes in a line of {_VARIABLE} = {path!r}")
    try:
        order = json.loads(line)
        env = order.get("env", {})
        right = bool(order.get("over") or env) and len(env) <= _MAX_VARIABLES and all(
            isinstance(k, str) and isinstance(v, str) and k and "=" not in k and "\0" not in k + v for k, v in env.items()
        )
    except (ValueError, AttributeError, TypeError) as e:
        raise ConnectionError(f"skerry: {line[:200]!r} at {_VARIABLE} = {path!r}, want JSON with env or over") from e
    if not right:
        raise ConnectionError(f"skerry: {line[:200]!r} at {_VARIABLE} = {path!r}, want JSON with env or over")
    return order
