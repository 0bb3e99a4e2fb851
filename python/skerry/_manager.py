"""The Manager: one replica's part in a training that goes on when replicas die."""

import atexit
import contextlib
import json
import os
import signal
import threading
import weakref
from datetime import timedelta

import torch
import torch.distributed as dist

from skerry import _errors, _lib, _ops, _parts
from skerry._devices import Devices, listen
from skerry._group import Group
from skerry._place import wait_for_place
from skerry._work import Work, microseconds

_managers = set()  # until shutdown: others may read their tensors till then


@atexit.register
def _close_all():
    for m in list(_managers):
        m.shutdown()


def _drain_all(*_):
    """SIGTERM's handler, where the program has none. Without a manager it is what the signal is without it."""
    for m in (draining := [m for m in list(_managers) if m._drains and m._handle and not m._over]):
        m.drain()
    if not draining:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)


def _after_in_child():
    _managers.clear()
    _handle_sigterm(False)


os.register_at_fork(after_in_child=_after_in_child)


def _handle_sigterm(drains):
    """Puts the handler in the place of none, or none in its place. Only the main thread may."""
    old, new = (signal.SIG_DFL, _drain_all) if drains else (_drain_all, signal.SIG_DFL)
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is old:
        signal.signal(signal.SIGTERM, new)


def _is_callers(error):
    """Whether an error is of an operation that no replica can do: it has reached none, and is raised."""
    return isinstance(error, (ValueError, NotImplementedError))


class _Reported(Work):
    """One whose errors discard the step."""

    def _taken(self, error):
        m = self._group._manager()
        if error is None or _is_callers(error):
            return error
        if m:
            m.report_error(error)
        return None


class _ManagedGroup(Group):
    """The managed process group: ranks and sizes are the participants' of the newest quorum."""

    def __init__(self, manager, handle):
        self._manager, self._alone = weakref.ref(manager), None
        self._begin(0, 1, handle)

    _sums_sparse = False  # the operations of a sum might be of several quorums

    def _do(self, *args, **fields):
        self._wait_alone()
        return super()._do(*args, **fields)

    def _known_size(self):
        """Not before the quorum is: the library checks roots then."""
        return None

    def _reduce_quantized(self, tensor, reduce_op, format):
        """An all-reduce in eight bits. It is made of two operations, which no other may come between."""
        self._wait_alone()
        op = _ops.encode(_ops.QUANTIZED_ALL_REDUCE, (tensor,), reduce=_ops.reduce_code(reduce_op), root=format)
        self._alone = _Reported(self, (tensor,), tensor)._run(_lib.submit, op)
        return self._alone

    def _wait_alone(self):
        if (alone := self._alone) is not None:
            with contextlib.suppress(Exception):  # it is the work's
                alone.wait()
            if self._alone is alone:  # else a callback has begun another
                self._alone = None

    def rank(self):
        m = self._manager()
        return max(m._numbers()["participant_rank"], 0) if m else 0

    def size(self):
        m = self._manager()
        return max(m._numbers()["participants"], 1) if m else 1

    def _ended(self, work):
        super()._ended(work)
        m, error = self._manager(), work._error
        if m and _is_callers(error):
            m.report_error(error)

    def shutdown(self, together=None):
        self._wait_alone()  # which has a thread of its own in the library
        self._handle = 0  # the manager's
        self._futures.stop()


class Event(str):
    """What has happened, as text. data: its fields; times are nanoseconds."""

    def __new__(cls, event):
        self = super().__new__(cls, event["text"])
        self.data = event["data"]
        return self


_told_environment = {"SKERRY_SPARE"}  # which the library may have read before the place was taken


def _environment():
    """The variables that the library reads, as they are now. One that is no more is None."""
    now = {k: v for k, v in os.environ.items() if k.startswith(("SKERRY_", "TORCHFT_", "MASTER_")) or k in ("REPLICA_GROUP_ID", "RANK", "WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT")}
    gone = {k: None for k in _told_environment - now.keys()}
    _told_environment.update(now)
    return {**gone, **now}


class Manager:
    """One rank of a replica. The training loop calls start_quorum, the collectives and should_commit in
    this order, on one thread; everything else may be called from any.

    state: what heals move, by name: modules, optimizers, schedulers, loaders, anything with
    state_dict and load_state_dict. `register` and `register_state_dict_fn` take more, before the first
    start_quorum. replica_id: this replica's name (else REPLICA_GROUP_ID's); a new process of the same
    name is its next incarnation. A spare of `skerry run` waits in here for its place (wait_for_place). lighthouse: "host:port", or several (else SKERRY_LIGHTHOUSE,
    TORCHFT_LIGHTHOUSE). Settings that are not given are taken from the environment; docs/PYTHON.md
    has all.

    A torch process that ends without shutdown says goodbye as the interpreter ends.
    """

    def __init__(
        self, *, replica_id="", lighthouse=None, job="", state=None, min_replica_size=0, fixed_world_size=0,
        use_async_quorum=True, init_sync=True, heal_in_place=False, max_retries=None, total_steps=0, timeout=None, heal_timeout=None,
        parity_every=0, parity_whole=False, rank=0, world_size=0, group_store="", listen="", advertise="", open=False,
        backend="tcp", params=None, devices=None, log="", on_event=None, drain_on_sigterm=True,
    ):
        if heal_in_place and devices is not None:
            raise ValueError("skerry: heal_in_place is for states on the host: those of devices are copies there anyway")
        if isinstance(lighthouse, str):
            lighthouse = [a for a in lighthouse.split(",") if a]
        self._settings = {
            "ReplicaID": replica_id, "Lighthouse": lighthouse or [], "Job": job, "MinReplicas": min_replica_size,
            "FixedWorldSize": fixed_world_size, "Sync": not use_async_quorum, "NoInitSync": not init_sync,
            "HealInPlace": heal_in_place, "MaxRetries": max_retries or 0, "TotalSteps": total_steps, "StepTimeoutUs": microseconds(timeout) or 0,
            "HealTimeoutUs": microseconds(heal_timeout) or 0, "ParityEvery": parity_every, "ParityWhole": parity_whole,
            "GroupRank": rank, "GroupWorldSize": world_size, "GroupStore": group_store, "Listen": listen,
            "Advertise": advertise, "Open": open, "Backend": backend,
            "Params": {k.replace("_", "-"): str(v) for k, v in (params or {}).items()}, "Log": log,
            "Outside": devices is not None,
        }
        self._devices = Devices(devices) if isinstance(devices, str) else devices
        self._threads = []
        self._parts, self._handle, self._group, self._who = {}, 0, None, None
        self._on_event, self._failed, self._closed, self._lock = on_event, None, False, threading.RLock()
        self._start, self._in_step, self._last, self._drains = {}, False, None, drain_on_sigterm
        self._calls = {}  # those whose answers are yet to be taken, by verb
        self._unheard, self._committed, self._over, self._unsure = False, False, False, None
        self._updates = []  # called before the update that a commit allows
        for name, thing in (state or {}).items():
            self.register(name, thing)
        if replica_id and os.environ.get("SKERRY_SPARE"):
            raise ValueError(f"skerry: replica_id = {replica_id!r} in a spare that has no place yet: call skerry.wait_for_place() before it is made")
        wait_for_place()

    # The state.

    def register(self, name, thing, **options):
        """Names a part of the state: a thing with state_dict and load_state_dict. Without options it is
        known from its class how it is treated; options are those of register_state_dict_fn."""
        for part in _parts.of(name, thing, **options):
            self._add(part)

    def register_state_dict_fn(self, key, load_state_dict, state_dict, *, local=False, volatile=True, room=None):
        """Names a part of the state by two functions. local: replicas may hold it differently, and nobody
        compares it. volatile: the forward pass may change it, so each start_quorum takes a copy; without,
        its tensors must be as they are until should_commit returns, and replicas compare them. room: how many bytes of
        tensors it takes from others beyond those that it has; None: four times as many, and 64 MiB."""
        self._add(_parts.Part(key, state_dict, load_state_dict, local=local, volatile=volatile, room=room))

    def set_state_dict_fns(self, load_state_dict, state_dict):
        """torchft's older name: one more part of the state."""
        self.register_state_dict_fn("set_state_dict_fns", load_state_dict, state_dict)

    def _add(self, part):
        if self._handle or self._closed:
            raise RuntimeError(f"skerry: state {part.name!r} is registered after the first start_quorum")
        if part.name in self._parts:
            raise ValueError(f"skerry: state {part.name!r} is registered already")
        self._parts[part.name] = part

    def state_dict(self):
        """The position: what a checkpoint file wants besides the registered state. Save both between
        should_commit and the next start_quorum."""
        self._check_failed()
        self._check_answered()
        if _lib.START in self._calls:
            raise _errors.StepOpen("skerry: start_quorum was interrupted: call it again, for a heal may have come in part")
        if self._unsure:
            raise _errors.StepOpen(self._unsure)
        self._hear()
        n = self._numbers()
        return {"step": n["step"], "batches_committed": n["batches"], **{k: n["position"][k] for k in ("cluster", "quorum_id")}}

    def load_state_dict(self, state):
        """Says, before the first start_quorum, which position the registered state has that was read
        from a file."""
        if self._handle:
            raise RuntimeError("skerry: load_state_dict after the first start_quorum")
        self._start = {
            "Step": int(state["step"]), "Batches": int(state["batches_committed"]),
            "Cluster": state.get("cluster", ""), "QuorumID": int(state.get("quorum_id", 0)),
        }

    # Steps.

    def start_quorum(self, allow_heal=True, shrink_only=False, timeout=None):
        """Begins a step. While the quorum stands it asks nobody and returns at once; otherwise the next
        one is formed beside the forward pass. The first of a process waits for it, and heals."""
        self._check()
        self._check_answered()
        self._who, self._committed = None, False
        if self._devices:
            self._devices.begin()
        if _lib.START not in self._calls and not self._in_step:  # else they are told, and others may read them
            self._hear()
            for part in self._parts.values():
                part.look()
            self._open()
            for part in self._parts.values():
                part.tell(self._handle)
        self._in_step = False
        self._call(_lib.START, (0 if allow_heal else 1) | (2 if shrink_only else 0), timeout)
        self._in_step = True

    def _resume(self):
        """Takes the answer of a start that was interrupted."""
        if _lib.START in self._calls:
            self._call(_lib.START)
            self._in_step = True

    def _hear(self):
        """Takes what a heal brought in a call that failed."""
        if self._unheard and self._handle:
            self._call(_lib.LOADED)
            self._unheard = False

    def wait_quorum(self):
        """Blocks until the step's quorum is there and its group is configured."""
        self._check()
        if not self._handle:
            raise RuntimeError("skerry: wait_quorum before the first start_quorum")
        self._call(_lib.WAIT_QUORUM)

    def allreduce(self, tensor, reduce_op=dist.ReduceOp.AVG, should_quantize=False):
        """Reduces a tensor in place over the participants; a Work, whose future's value is the tensor. Its errors
        are not raised: they discard the step. A replica that heals, or is a spare, gives zeros. The
        default is the average. should_quantize: True or "int8", or "fp8": in eight bits per element and a scale for each 512,
        with the same bytes on all; sums and averages of float16, bfloat16 and float32. The next operation waits for it."""
        self._check()
        self._check_answered()
        self._resume()
        if reduce_op == dist.ReduceOp.AVG and not (tensor.is_floating_point() or tensor.is_complex()):
            raise TypeError(f"skerry: no average of {tensor.dtype}: want a reduce_op")
        if self._devices and tensor.device.type in self._devices.types:
            if should_quantize:
                raise NotImplementedError(f"skerry: no quantised reduction of a tensor on {tensor.device}, want cpu")
            return self._devices.allreduce(tensor, reduce_op)
        if should_quantize:
            format = "int8" if should_quantize is True else should_quantize
            if format not in _ops.FORMATS:
                raise ValueError(f"skerry: should_quantize = {should_quantize!r}, want True, False or one of {', '.join(_ops.FORMATS)}")
            return self.group._reduce_quantized(tensor, reduce_op, _ops.FORMATS[format])
        return self.group._do(_ops.ALL_REDUCE, [tensor], [tensor], tensor, None, reduce=_ops.reduce_code(reduce_op))

    def wrap_future(self, future, default, timeout=None):
        """A future that never fails: where the other one does, or has no value after timeout (None: the time of an
        operation), the step is discarded, and the value is default."""
        self.group  # noqa: B018  raises, if there is none
        now = self._numbers()
        limit, step = (microseconds(timeout) or now["op_timeout_us"]) / 1e6, now["step"]
        wrapped, once = torch.futures.Future(), threading.Lock()

        def settle(value, error=None):
            if once.acquire(blocking=False):
                if error is not None and self._in_step and self._numbers()["step"] == step:  # else it is over
                    self.report_error(error)
                wrapped.set_result(value)

        def done(f):
            timer.cancel()
            try:
                settle(f.value())
            except Exception as e:
                settle(default, e)

        timer = threading.Timer(limit, lambda: settle(default, TimeoutError(f"skerry: a future has no value after {limit} s")))
        timer.daemon = True
        timer.start()
        future.add_done_callback(done)
        return wrapped

    @property
    def group(self):
        """The managed process group, with all verbs: what goes wrong in them discards the step."""
        if self._group is None:
            self._check()
            raise RuntimeError("skerry: no group before the first start_quorum")
        return self._group

    def should_commit(self, timeout=None) -> bool:
        """Ends a step and says whether the optimizer may apply it: all replicas get the same answer. A
        state that was healed meanwhile is loaded when it returns. An exception of a signal's handler, as Ctrl-C's, ends
        the wait alone: then nothing is known, and the next should_commit gives the answer."""
        self._check()
        self._open()
        self._resume()
        if self._devices and _lib.COMMIT not in self._calls:
            self.move()
            self._devices.settle(self._numbers()["op_timeout_us"] / 1e6)
        self._group._wait_alone()
        self._group._busy()  # lets operations tell why they failed
        try:
            self._call(_lib.COMMIT, 0, timeout)
        except Exception:
            self._in_step = _lib.COMMIT in self._calls
            raise
        self._in_step = False
        if self._committed:
            for update in self._updates:
                update()
        n = self._numbers()
        if self._committed and n["participating"] and not n["healing"]:  # nor has a heal broken off, to go on later
            for part in self._parts.values():
                part.forget()
        return self._committed

    @contextlib.contextmanager
    def _applies(self):
        """Around should_commit and the update that it allows: one that is committed and not made whole, as it was
        interrupted or raised, ends this replica's training, for its state is of no step."""
        self._committed = False
        try:
            yield
        except BaseException as e:
            if self._committed and not self._failed:
                self._failed = f"skerry: a step is committed, and its update raised {type(e).__name__}: " \
                    "the state is of no step; end this process, a new one heals"
            raise

    def report_error(self, error):
        """Discards the step under way, on all replicas."""
        if self._handle:
            _lib.manager_report(self._handle, f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else str(error))

    def errored(self):
        """The first error of the step under way, as text; None: there is none."""
        return self._numbers().get("errored")

    def move(self):
        """Says that the trainer moves, where it calls nothing else for long, as in an evaluation."""
        if self._handle:
            _lib.manager_move(self._handle)

    def finish(self, step, linger=10.0):
        """Ends a run in good order. step() makes one step of the loop; it is called until one was committed in
        which nobody was behind, for linger seconds at least, and must change nothing any more once the
        model has had its steps. Then this replica has left, and the others know."""
        self._check()
        self._open()
        call = _lib.manager_begin(self._handle, _lib.FINISH, microseconds(linger) or 0)
        try:
            while _lib.wait(call, 0) == _lib.PENDING:
                if not _lib.manager_turn(self._handle):
                    continue
                try:
                    step()
                    _lib.manager_stepped(self._handle, False)
                except (_errors.Drained, _errors.RankLost):  # the latter: another rank of this replica has left before
                    _lib.manager_stepped(self._handle, True)
            if (error := _lib.error(call)) is not None:
                raise error
            self._over = True
        finally:
            _lib.close(call)
        self._tell_events()

    def drain(self):
        """Asks to leave: the step under way is finished, the others go on without this replica, and then
        start_quorum or should_commit raises Drained. SIGTERM does it, unless the program has a handler."""
        if self._handle:
            _lib.manager_drain(self._handle)

    # What it says.

    def current_step(self) -> int:
        """How many updates were committed."""
        return self._numbers()["step"]

    def batches_committed(self) -> int:
        """The participants of all committed steps, added up."""
        return self._numbers()["batches"]

    def num_participants(self) -> int:
        """How many take part in this step: the divisor of averages. Waits for the step's quorum. Between two
        steps it is that of the last."""
        return self._participants()[1]

    def participating_rank(self):
        """This replica's index among them; None: it heals, or is a spare."""
        rank = self._participants()[0]
        return rank if rank >= 0 else None

    def is_participating(self) -> bool:
        return self._participants()[0] >= 0

    def _participants(self):
        """Waits as torchft's do, and holds for the step: if the quorum falls, the step is discarded."""
        who = self._shares()
        if who is None:
            n = self._numbers()
            return n["participant_rank"], n["participants"]
        return who["rank"], who["count"]

    def _shares(self, anew=False):
        """What the step is shared out to, and in which quorum; None: it is lost, or none is under way."""
        if anew:
            self._who = None
        if self._who is None and self._in_step:
            with contextlib.suppress(_errors.StepFailed):
                self._who = {"rank": 0, "count": 0, "quorum_id": 0, **self._call(_lib.PARTICIPANTS)}
        return self._who

    def replica_id(self) -> str:
        """The name of this incarnation."""
        return self._numbers()["replica_id"]

    def is_healing(self) -> bool:
        """Whether a state is fetched, or waits to be loaded."""
        return self._numbers()["healing"]

    def holds_state(self) -> bool:
        """Whether the registered tensors are the state of this position, and may be saved."""
        if self._failed or self._unsure or self._calls:
            return False
        self._hear()
        return self._numbers()["holds_state"]

    def _numbers(self):
        if not self._handle:
            return self._last or {
                "step": self._start.get("Step", 0), "batches": self._start.get("Batches", 0), "quorum_id": 0, "participants": 0,
                "participant_rank": -1, "participating": False, "healing": False, "replica_id": self._settings["ReplicaID"],
                "holds_state": True, "position": {"cluster": self._start.get("Cluster", ""), "quorum_id": self._start.get("QuorumID", 0)},
            }
        return _lib.text(self._handle)

    # How it runs.

    def _open(self):
        if self._handle:
            return
        for part in self._parts.values():
            if part.text is None:  # no start_quorum was before
                part.look()
        parts = [p.options() for p in self._parts.values()]
        settings = dict(self._settings, Start=self._start, Parts=parts, Env=_environment())
        self._handle = _lib.open_manager(json.dumps(settings))
        self._group = _ManagedGroup(self, _lib.manager_group(self._handle))
        if self._devices:
            self._devices.open(self, self._handle, timedelta(microseconds=self._numbers()["heal_timeout_us"]))
        if any(p.asked for p in self._parts.values()):
            listen(self._handle, _lib.WISH_STATE, lambda wish: self._parts[wish["part"]].fetch(), self._threads)
        _managers.add(self)
        if self._drains:
            _handle_sigterm(True)

    def _call(self, verb, argument=0, timeout=None):
        """Calls a verb, and takes the states that it brings. A start or a commit whose wait is interrupted goes on: the
        next of the same verb gets its answer."""
        kept = verb in (_lib.START, _lib.COMMIT)
        call = self._calls.get(verb) or _lib.manager_begin(self._handle, verb, argument, microseconds(timeout))
        if kept:
            self._calls[verb] = call
        try:
            said, error = _lib.manager_answer(call)
            if error is None:
                self._tell_events()
                self._take(said)
        except BaseException:
            if not kept:
                self._unheard = True
                _lib.close(call)
            raise
        if verb == _lib.COMMIT:
            self._committed = said.get("commit", False)
            if self._devices:
                self._devices.begin()
        self._unheard = self._unheard or error is not None
        if kept:
            self._drop(verb)
        else:
            _lib.close(call)
        if error is None:
            return said
        self._over = self._over or isinstance(error, _errors.TrainingEnded)
        with contextlib.suppress(Exception):  # what a callback raises is less than what is raised here
            self._tell_events()
        raise error

    def _drop(self, verb):
        if call := self._calls.pop(verb, None):
            _lib.close(call)

    def _take(self, said):
        """Loads what a heal brought. A state that its owner does not take ends training."""
        for name, news in (said.get("loaded") or {}).items():
            try:
                self._parts[name].take(news)
            except Exception as e:
                self._failed = f"skerry: state {name!r} of the others was not taken: {type(e).__name__}: {e}"
                self.shutdown()
                raise

    def _tell_events(self):
        if self._on_event is None:
            return
        while (event := _lib.manager_event(self._handle)) is not None:
            self._on_event(event["type"], Event(event))

    def _check_failed(self):
        if self._failed:
            raise RuntimeError(self._failed)

    def _check_answered(self):
        if _lib.COMMIT in self._calls:
            raise _errors.StepOpen("skerry: should_commit was interrupted: call it again, for nobody knows whether the step is committed")

    def _check(self):
        self._check_failed()
        if self._closed:
            raise _errors.Closed("skerry: the manager is closed", _errors.CLOSED)

    def shutdown(self, wait=True):
        """Says goodbye, ends everything, and waits until nothing touches any tensor."""
        with self._lock:
            with contextlib.suppress(_errors.Closed, _errors.Forked):
                if self._handle and not self._failed:
                    self._keep_last()
            handle, group, self._closed = self._handle, self._group, True
            self._handle = 0
        if handle:
            _lib.close(handle)
            for thread in self._threads:
                if thread is not threading.current_thread():
                    thread.join()
            if self._devices:
                self._devices.close()
            group.shutdown()
            for verb in list(self._calls):
                self._drop(verb)
        _managers.discard(self)
        if not any(m._drains for m in _managers):
            _handle_sigterm(False)

    def _keep_last(self):
        """Keeps what is true of the state, for who saves it behind the end."""
        try:
            self._hear()
        except Exception as e:
            self._unsure = f"skerry: a heal was not taken: {e}"
        if self._calls:
            verb = "should_commit" if _lib.COMMIT in self._calls else "start_quorum"
            self._unsure = f"skerry: {verb} was interrupted, and its answer was never taken: nobody knows of which step the state is"
        self._last = self._numbers()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.shutdown()
