"""libskerry, by ctypes. Functions that may block release the interpreter's lock."""

import array
import ctypes
import json
import os
import threading

from skerry import _errors

ABI = 3
DONE, FAILED, PENDING = range(3)

_SLICE_US = 100_000  # how long the main thread waits at a time: then signals are looked at
_TEXT = 8192

_dead = False  # in the child of a fork


def _load():
    path = os.environ.get("SKERRY_LIBRARY") or os.path.join(os.path.dirname(__file__), "libskerry.so")
    try:
        lib = ctypes.CDLL(path)
    except OSError as e:
        raise ImportError(f"skerry: cannot load {path}: {e}; build it (make libskerry) or set SKERRY_LIBRARY") from e
    if lib.skerry_abi() != ABI:
        raise ImportError(f"skerry: {path} has ABI {lib.skerry_abi()}, want {ABI}: the package and the library are of two versions")
    n, p = ctypes.c_int64, ctypes.c_char_p
    for name, result, args in (
        ("poller", ctypes.c_int, ()),
        ("store_serve", n, (p, n, p, n, p, n, p, n)),
        ("open", n, (p, n, p, n, p, n)),
        ("configure", ctypes.c_int, (n, p, n, n, p, n)),
        ("abort", None, (n, p, n)),
        ("err", ctypes.c_int, (n, ctypes.POINTER(n), p, n, p, n)),
        ("submit", n, (n, ctypes.c_void_p, n)),
        ("run", n, (n, ctypes.c_void_p, n, n)),
        ("wait", ctypes.c_int, (n, n)),
        ("error", ctypes.c_int, (n, ctypes.POINTER(n), p, n, p, n)),
        ("source", n, (n,)),
        ("close", None, (n,)),
        ("text", n, (n, p, n)),
        ("manager_open", n, (p, n, p, n)),
        ("manager_group", n, (n,)),
        ("manager_state", ctypes.c_int, (n, p, n, p, n, p, n)),
        ("manager_call", n, (n, n, n, n)),
        ("manager_turn", ctypes.c_int, (n, n)),
        ("manager_stepped", None, (n, ctypes.c_int)),
        ("manager_report", None, (n, p, n)),
        ("manager_drain", None, (n,)),
        ("manager_move", None, (n,)),
        ("manager_event", n, (n, p, n)),
        ("manager_wish", n, (n, n, p, n, n)),
        ("manager_grant", None, (n, n, p, n)),
        ("store_call", n, (n, p, n, n)),
    ):
        f = getattr(lib, "skerry_" + name)
        f.restype, f.argtypes = result, args
    return lib


_lib = _load()


_poller, _sockets = None, []


def _before_fork():
    """Notes the library's sockets. A child that kept them open would hide this process's death from its peers:
    they see a socket's end when the last of its owners closes it."""
    global _poller, _sockets
    _sockets = []
    if _dead:
        return
    if _poller is None:
        _poller = _lib.skerry_poller()
    try:
        with open(f"/proc/self/fdinfo/{_poller}") as f:
            _sockets = [int(line.split()[1]) for line in f if line.startswith("tfd:")]
    except OSError:  # there is no such thing here
        pass


def _after_fork():
    global _dead, _sockets
    _dead = True
    for fd in _sockets:
        try:
            os.close(fd)  # no shutdown: that would be the parent's, too
        except OSError:
            pass
    _sockets = []


os.register_at_fork(before=_before_fork, after_in_child=_after_fork)


def _alive():
    if _dead:
        raise _errors.Forked("skerry: this process was forked after Skerry was loaded; use the spawn or forkserver start method")
    return _lib


def _text(s):
    b = s.encode(errors="backslashreplace")
    return b, len(b)


def _failure(call, handle):
    rank, name, text = ctypes.c_int64(-1), ctypes.create_string_buffer(1024), ctypes.create_string_buffer(_TEXT)
    code = call(handle, ctypes.byref(rank), name, len(name), text, len(text))
    if code == 0:
        return None
    return _errors.failure(code, text.value.decode(errors="replace"), rank.value, name.value.decode(errors="replace"))


def _made(call, *args):
    """The handle that a call makes."""
    said = ctypes.create_string_buffer(_TEXT)
    h = call(*args, said, len(said))
    if h == 0:
        raise ValueError(said.value.decode(errors="replace"))
    return h


def _checked(call, *args):
    """Raises what a call that returns a code says."""
    said = ctypes.create_string_buffer(_TEXT)
    code = call(*args, said, len(said))
    if code != 0:
        raise _errors.failure(code, said.value.decode(errors="replace"))


def serve_store(host, token):
    """Serves a rendezvous store; returns its handle and "host:port"."""
    address, text = ctypes.create_string_buffer(256), ctypes.create_string_buffer(_TEXT)
    h = _alive().skerry_store_serve(*_text(host), *_text(token), address, len(address), text, len(text))
    if h == 0:
        raise RuntimeError(text.value.decode(errors="replace"))
    return h, address.value.decode()


def open_group(backend, settings):
    """Makes an unconfigured group; settings are JSON."""
    return _made(_alive().skerry_open, *_text(backend), *_text(settings))


def configure(group, settings, timeout_us):
    _checked(_alive().skerry_configure, group, *_text(settings), timeout_us)


def abort(group, why):
    _alive().skerry_abort(group, *_text(why))


def group_error(group):
    """Why a group is broken, as an exception; None: it is not."""
    return _failure(_alive().skerry_err, group)


def submit(group, op: array.array):
    """Starts an operation; the memory that it names is the library's until it is done."""
    return _alive().skerry_submit(group, op.buffer_info()[0], len(op))


def run(group, op: array.array):
    """Runs an operation whole; returns 0, or the handle of one to `finish`."""
    return _alive().skerry_run(group, op.buffer_info()[0], len(op), _slice())


def wait(work, timeout_us=None):
    """Waits for an operation; returns its state. None: for as long as it takes."""
    lib = _alive()
    while timeout_us is None or timeout_us > 0:
        step = _slice() if timeout_us is None else min(_slice(), timeout_us)
        state = lib.skerry_wait(work, step)
        if state != PENDING:
            return state
        if timeout_us is not None:
            timeout_us -= step
    return lib.skerry_wait(work, 0)


def _slice():
    # Python runs signal handlers between two calls of its main thread alone.
    return _SLICE_US if threading.current_thread() is threading.main_thread() else 3600 * 1_000_000


def error(work):
    """Why an operation failed, as an exception; None: it has not."""
    return _failure(_alive().skerry_error, work)


def source(work):
    return _alive().skerry_source(work)


def close(handle):
    if not _dead:
        _lib.skerry_close(handle)


def text(handle):
    """What a manager or a call that is done has to say, from JSON; None: nothing."""
    size = _TEXT
    while True:
        buffer = ctypes.create_string_buffer(size)
        n = _alive().skerry_text(handle, buffer, size)
        if n < 0:
            raise _errors.Closed("skerry: the manager is closed", _errors.CLOSED)
        if n < size:
            return json.loads(buffer.value) if n else None
        size = n + 1


# The verbs of a manager, as skerry.h has them.
START, WAIT_QUORUM, PARTICIPANTS, COMMIT, FINISH, LOADED = range(1, 7)


def open_manager(settings):
    """Makes a manager; settings are JSON."""
    return _made(_alive().skerry_manager_open, *_text(settings))


def manager_group(manager):
    return _alive().skerry_manager_group(manager)


def manager_state(manager, part, state):
    _checked(_alive().skerry_manager_state, manager, *_text(part), *_text(state))


def manager_begin(manager, verb, argument=0, timeout_us=None):
    """Begins a call of a verb; returns its handle, to be closed."""
    return _alive().skerry_manager_call(manager, verb, argument, timeout_us or 0)


def manager_answer(call):
    """Waits for a call, and returns what it says and why it failed; the latter is None where it has not. Signals are
    looked at meanwhile; an exception of their handlers ends the wait, and not the call."""
    if wait(call) == FAILED:
        return {}, error(call) or _errors.Closed("skerry: the manager is closed", _errors.CLOSED)
    return text(call) or {}, None


def manager_turn(manager):
    """Waits a little for a finish to want a step, and says whether it does."""
    return _alive().skerry_manager_turn(manager, _SLICE_US) == 1


def manager_stepped(manager, drained):
    _alive().skerry_manager_stepped(manager, int(drained))


def manager_report(manager, why):
    _alive().skerry_manager_report(manager, *_text(why))


def manager_drain(manager):
    _alive().skerry_manager_drain(manager)


def manager_move(manager):
    _alive().skerry_manager_move(manager)


def manager_event(manager):
    """The oldest event not yet told, from JSON; None: there is none."""
    size = _TEXT
    while True:
        buffer = ctypes.create_string_buffer(size)
        n = _alive().skerry_manager_event(manager, buffer, size)
        if n < size:
            return json.loads(buffer.value) if n > 0 else None
        size = n + 1


WISH_GROUP, WISH_END, WISH_STATE = range(1, 4)


def manager_wish(manager, kind, timeout_us):
    """Waits for a wish of a kind, from JSON; None: there is none yet. Closed: there will be none any more."""
    buffer = ctypes.create_string_buffer(_TEXT)
    n = _alive().skerry_manager_wish(manager, kind, buffer, len(buffer), timeout_us)
    if n < 0:
        raise _errors.Closed("skerry: the manager is closed", _errors.CLOSED)
    return json.loads(buffer.value) if n else None


def manager_grant(manager, wish, why=""):
    """Grants a wish, or says why not."""
    _alive().skerry_manager_grant(manager, wish, *_text(why))


def store_call(store, request, timeout_us):
    """Begins a call of a store; returns its handle, to be closed."""
    return _alive().skerry_store_call(store, *_text(request), timeout_us or 0)


def copy(to, address, size):
    """Copies bytes of the library's memory."""
    ctypes.memmove(to, address, size)
