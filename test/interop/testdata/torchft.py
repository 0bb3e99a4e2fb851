"""Runs torchft's compiled classes by command: one JSON object a line, in and out.

    python3 torchft.py MODULE.so

A command is {"id": 1, "op": "client", ...}; its answer {"id": 1, "ok": ...} or
{"id": 1, "error": "..."}. Each runs in a thread of its own, so that calls may wait for
each other. The program ends with its standard input.
"""

import ast
import importlib.machinery
import importlib.util
import inspect
import json
import os
import sys
import threading
from datetime import timedelta


def load(path):
    loader = importlib.machinery.ExtensionFileLoader("_torchft", path)
    spec = importlib.util.spec_from_file_location("_torchft", path, loader=loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


torchft = load(sys.argv[1])
things = {}
beating = {}


def seconds(s):
    return timedelta(seconds=s)


def client(name, addr, timeout=10):
    things[name] = torchft.LighthouseClient(addr=addr, connect_timeout=seconds(timeout))


def beat(name, replica_id, timeout=5):
    things[name].heartbeat(replica_id=replica_id, timeout=seconds(timeout))


def beats(name, replica_id, every=0.1):
    """Beats until stop is called, whatever becomes of a beat."""
    stop = beating[name] = threading.Event()

    def loop():
        while not stop.wait(every):
            try:
                beat(name, replica_id)
            except Exception:
                pass

    threading.Thread(target=loop, daemon=True).start()


def stop(name):
    beating.pop(name).set()


def quorum(name, timeout=30, **member):
    q = things[name].quorum(timeout=seconds(timeout), **member)
    fields = ("replica_id", "address", "store_address", "step", "world_size", "shrink_only", "data")
    return {
        "quorum_id": q.quorum_id,
        "participants": [{f: getattr(p, f) for f in fields} for p in q.participants],
    }


def manager_server(name, replica_id, lighthouse, store, world_size=1, retries=0, timeout=10):
    things[name] = torchft.ManagerServer(
        replica_id=replica_id, lighthouse_addr=lighthouse, hostname="localhost", bind="[::]:0",
        store_addr=store, world_size=world_size, heartbeat_interval=timedelta(milliseconds=100),
        connect_timeout=seconds(timeout), quorum_retries=retries)
    return things[name].address()


def shim():
    """The file by which a job starts our manager."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../manager/torchft")
    sys.path.insert(0, folder)
    import skerry_torchft

    return skerry_torchft


def shim_server(name, replica_id, lighthouse, store, program, world_size=1):
    os.environ["SKERRY"] = program
    things[name] = shim().ManagerServer(
        replica_id=replica_id, lighthouse_addr=lighthouse, hostname="localhost", bind="[::]:0",
        store_addr=store, world_size=world_size, heartbeat_interval=timedelta(milliseconds=100),
        connect_timeout=seconds(10), quorum_retries=0)
    return things[name].address()


def shim_misfits():
    """What the wheel's Manager gives its ManagerServer, or calls on it, and the shim does not take."""
    ours = shim().ManagerServer
    with open(os.path.join(os.path.dirname(sys.argv[1]), "manager.py")) as f:
        tree = next(n for n in ast.parse(f.read()).body if isinstance(n, ast.ClassDef) and n.name == "Manager")
    given, called = set(), set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        f = node.func
        if isinstance(f, ast.Name) and f.id == "ManagerServer":
            given |= {k.arg for k in node.keywords} | {f"argument {i}" for i in range(len(node.args))}
        if isinstance(f, ast.Attribute) and isinstance(f.value, ast.Attribute) and f.value.attr == "_manager":
            called.add(f.attr)
    if not given:
        return ["no call of ManagerServer"]
    return sorted(given - set(inspect.signature(ours.__init__).parameters)) + sorted(c for c in called if not hasattr(ours, c))


def manager(name, addr, timeout=10):
    things[name] = torchft.ManagerClient(addr, connect_timeout=seconds(timeout))


def manager_quorum(name, group_rank, step, metadata="", shrink_only=False, init_sync=True, failures=0, handle="", timeout=30):
    # Only a newer torchft has the handle.
    extra = {"reconfigure_handle": handle} if has_handles() else {}
    q = things[name]._quorum(
        group_rank=group_rank, step=step, checkpoint_metadata=metadata, shrink_only=shrink_only, init_sync=init_sync,
        commit_failures=failures, timeout=seconds(timeout), **extra)
    fields = (
        "quorum_id", "replica_rank", "replica_world_size", "recover_src_manager_address", "recover_src_replica_rank",
        "recover_dst_replica_ranks", "store_address", "max_step", "max_replica_rank", "max_world_size", "heal",
        "commit_failures", "replica_ids", "reconfigure_handles")
    return {f: getattr(q, f) for f in fields if hasattr(q, f)}


def has_handles():
    return "reconfigure_handle" in inspect.signature(torchft.ManagerClient._quorum).parameters


def should_commit(name, group_rank, step, ok, timeout=30):
    return things[name].should_commit(group_rank, step, ok, timeout=seconds(timeout))


def metadata(name, group_rank, timeout=5):
    return things[name]._checkpoint_metadata(group_rank, timeout=seconds(timeout))


def lighthouse_server(name, min_replicas, tick_ms=100, join_timeout_ms=1000):
    things[name] = torchft.LighthouseServer(
        bind="[::]:0", min_replicas=min_replicas, join_timeout_ms=join_timeout_ms, quorum_tick_ms=tick_ms)
    return things[name].address()


def shutdown(name):
    things.pop(name).shutdown()


def drop(name):
    things.pop(name)


ops = {f.__name__: f for f in (
    client, beat, beats, stop, quorum, manager_server, shim_server, shim_misfits, manager, manager_quorum, has_handles, should_commit,
    metadata, lighthouse_server, shutdown, drop)}
out = threading.Lock()


def answer(**message):
    with out:
        print(json.dumps(message), flush=True)


def run(command):
    number, op = command.pop("id"), command.pop("op")
    try:
        answer(id=number, ok=ops[op](**command))
    except BaseException as e:  # a panic of Rust is none of Exception's
        answer(id=number, error=f"{type(e).__name__}: {e}")


def main():
    for line in sys.stdin:
        threading.Thread(target=run, args=(json.loads(line),), daemon=True).start()
    os._exit(0)  # threads of Rust do not end by themselves


main()
