"""Runs torchft's own lighthouse until standard input ends.

    python3 torchft.py MODULE.so MIN_REPLICAS

MODULE.so is the extension module of its wheel; it is loaded without torch. The
address is the first line of standard output.
"""

import importlib.machinery
import importlib.util
import os
import sys

loader = importlib.machinery.ExtensionFileLoader("_torchft", sys.argv[1])
torchft = importlib.util.module_from_spec(importlib.util.spec_from_file_location("_torchft", sys.argv[1], loader=loader))
loader.exec_module(torchft)
server = torchft.LighthouseServer(bind="[::]:0", min_replicas=int(sys.argv[2]), join_timeout_ms=60000, quorum_tick_ms=100)
print(server.address(), flush=True)
sys.stdin.read()
os._exit(0)
