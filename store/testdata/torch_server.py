# Serves PyTorch's own TCPStore: each line on stdin asks for one more server,
# and is answered with its port. Ends with stdin.
import sys
from datetime import timedelta

import torch.distributed as dist

servers = []
for _ in sys.stdin:
    s = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=60))
    servers.append(s)
    print(s.port, flush=True)
