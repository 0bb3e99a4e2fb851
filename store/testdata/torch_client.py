# PyTorch's own client against a Skerry server: argv is host, port, world size.
# Prints "ok" at the end; any assertion that fails ends it with a traceback.
import sys
import threading
from datetime import timedelta

import torch.distributed as dist

host, port, world = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


def connect(**more):
    return dist.TCPStore(host, port, is_master=False, timeout=timedelta(seconds=20), **more)


def text(element):
    # bytes, or in some releases a list of numbers
    return bytes(element).decode()


a = connect(world_size=world, wait_for_workers=True)
b = connect()

a.set("k", "v")
assert b.get("k") == b"v"
a.set("empty", "")
assert b.get("empty") == b""

assert a.add("n", 3) == 3
assert b.add("n", -5) == -2
assert a.get("n") == b"-2"

assert a.compare_set("cs", "old", "new") == b"old"
assert a.compare_set("cs", "", "new") == b"new"
assert a.compare_set("cs", "new", "newer") == b"newer"
assert a.compare_set("cs", "other", "x") == b"newer"

assert a.check(["k", "n"])
assert not a.check(["k", "missing"])
# What has no answer is ordered with the same connection's next question only.
a.append("log", "one,")
assert a.get("log") == b"one,"
b.append("log", "two")
assert b.get("log") == b"one,two"

a.multi_set(["m1", "m2"], ["1", "22"])
assert b.multi_get(["m2", "m1"]) == [b"22", b"1"]

keys = a.num_keys()
assert a.delete_key("m1")
assert not a.delete_key("m1")
assert a.num_keys() == keys - 1

# A wait that another client ends, and one that times out: then CANCEL_WAIT.
late = threading.Timer(0.2, lambda: b.set("late", "x"))
late.start()
a.wait(["late", "k"], timedelta(seconds=10))
late.join()
try:
    a.wait(["never"], timedelta(milliseconds=200))
    raise AssertionError("wait did not time out")
except dist.DistStoreError:
    pass
assert a.get("k") == b"v"

# A number that is none: the server hangs up on this client only.
bad = connect()
try:
    bad.add("k", 1)
    raise AssertionError("add on a non-number did not fail")
except RuntimeError:
    pass
assert a.get("k") == b"v"

p = dist.PrefixStore("view", a)
p.set("k", "under")
assert a.get("view/k") == b"under"

if hasattr(a, "queue_push"):
    a.queue_push("q", "1")
    assert a.queue_len("q") == 1
    b.queue_push("q", "2")
    assert b.queue_len("q") == 2
    assert text(b.queue_pop("q")) == "1"
    assert text(a.queue_pop("q", False)) == "2"
    try:
        a.queue_pop("q", False)
        raise AssertionError("pop of an empty queue did not fail")
    except dist.QueueEmptyError:
        pass
    poppers = []
    got = []
    for c in [connect() for _ in range(4)]:
        t = threading.Thread(target=lambda c=c: got.append(text(c.queue_pop("herd"))))
        t.start()
        poppers.append(t)
    for i in range(4):
        a.queue_push("herd", str(i))
    for t in poppers:
        t.join()
    assert sorted(got) == ["0", "1", "2", "3"], got

print("ok")
