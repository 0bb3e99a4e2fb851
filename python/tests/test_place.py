"""A spare of skerry run: the launcher's side is played by a thread."""

import os
import socket
import subprocess
import sys
import tempfile
import threading

import pytest

import skerry


@pytest.fixture
def launcher(monkeypatch):
    """Says a text to the first process that connects, and hears what that answers."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, socket.socket(socket.AF_UNIX) as listener:  # a short path
        path = os.path.join(folder, "0")
        listener.bind(path)
        listener.listen()
        heard = []

        def serve(says):
            conn, _ = listener.accept()
            with conn:
                conn.sendall(says)
                if says.startswith(b'{"env":{') and says.endswith(b"\n"):
                    heard.append(conn.recv(1))

        def begin(says):
            monkeypatch.setenv("SKERRY_SPARE", path)
            thread = threading.Thread(target=serve, args=(says,), daemon=True)
            thread.start()
            return thread, heard

        yield begin


def test_place(launcher, monkeypatch):
    monkeypatch.setenv("REPLICA_GROUP_ID", "")
    thread, heard = launcher(b'{"env":{"REPLICA_GROUP_ID":"2"}}\n')
    skerry.Manager()  # its constructor waits, too
    thread.join()
    assert os.environ["REPLICA_GROUP_ID"] == "2" and "SKERRY_SPARE" not in os.environ and heard == [b"\n"]
    skerry.wait_for_place()  # it is no spare any more


def test_not_needed(launcher):
    thread, _ = launcher(b'{"over":true}\n')
    ended = subprocess.run([sys.executable, "-c", "import skerry; skerry.wait_for_place(); print('trains')"], capture_output=True, timeout=180)
    thread.join()
    assert (ended.returncode, ended.stdout) == (0, b""), ended.stderr


@pytest.mark.parametrize("says, wanted", [
    (b"", "the launcher has ended"), (b'{"env"', "the launcher has ended"), (b"{}\n", "want JSON with env or over"), (b"[]\n", "want JSON"), (b"x\n", "want JSON"),
    (b'{"env":{"A":7}}\n', "want JSON"), (b'{"over":true,"env":null}\n', "want JSON"), (b'{"env":["A"]}\n', "want JSON"), (b"x" * 70_000, "more than 65536 bytes"),
])
def test_errors(launcher, says, wanted):
    launcher(says if not says.startswith(b'{"env":{') else says[:-1] + b" \n")
    with pytest.raises(ConnectionError, match=wanted):
        skerry.wait_for_place()


def test_a_name_before_the_place(monkeypatch):
    monkeypatch.setenv("SKERRY_SPARE", "/no/such/socket")
    with pytest.raises(ValueError, match="call skerry.wait_for_place"):
        skerry.Manager(replica_id="train_")


def test_launcher_is_gone(monkeypatch):
    monkeypatch.setenv("SKERRY_SPARE", "/no/such/socket")
    with pytest.raises(ConnectionError, match="want the socket of the skerry run"):
        skerry.wait_for_place()
