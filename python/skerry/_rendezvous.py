"""How the members of a group find each other by torch's store."""

import json
import os
import secrets
import socket
import uuid

from skerry import _lib
from skerry._group import MINUTE, Group
from skerry._reconfigure import Reconfigurable, own_address


def create(opts, pg_options=None):
    """What torch.distributed calls for init_process_group("skerry") and new_group."""
    settings, later = dict(pg_options or {}), getattr(opts, "enable_reconfigure", False)
    group = (Reconfigurable if later else Group)(
        opts.group_rank, opts.group_size, backend=settings.pop("backend", "tcp"), timeout=opts.timeout,
        listen=settings.pop("listen", ""), params={k.replace("_", "-"): str(v) for k, v in settings.items()},
    )
    if later:
        return group
    try:
        _meet(group, opts.store, opts.group_rank, opts.group_size, opts.timeout)
    except BaseException:
        group.shutdown(together=None)
        raise
    return group


def _meet(group, store, rank, size, timeout):
    """Configures a group by torch's store: rank 0 serves a Skerry store, and says there where."""
    host, me = socket.gethostname(), f"skerry/{rank}"
    store.set(me, json.dumps({"host": host, "id": f"{rank}@{host}:{os.getpid()}"}))
    members = [json.loads(store.get(f"skerry/{r}")) for r in range(size)]
    if rank == 0:
        alone = all(m["host"] == host for m in members)
        token = secrets.token_hex(32)
        try:
            own = os.environ.get("SKERRY_LISTEN") or ("127.0.0.1" if alone else own_address())
            group._store, address = _lib.serve_store(own, token)
        except Exception as e:  # the others would wait for as long as torch's store lets them
            store.set("skerry/meet", json.dumps({"error": f"{type(e).__name__}: {e}"}))
            raise
        store.set("skerry/meet", json.dumps({"store": address + "/group", "token": token, "cluster": str(uuid.uuid4())}))
    meet = json.loads(store.get("skerry/meet"))
    if "error" in meet:
        raise RuntimeError(f"skerry: rank 0 ({members[0]['id']}) cannot serve the store in which the group meets: {meet['error']}")
    group.configure(
        meet["store"], [m["id"] for m in members], rank, cluster=meet["cluster"], token=meet["token"], timeout=timeout or MINUTE
    )
