"""Runs examples/digits.py once it is told to go on by SIGCONT: by then all that takes long to import is there.

Its steps take the time that --step-time says until SIGUSR1 comes, and none from then on. So a test has as many
seconds as it may need to do something to replicas that train, and none that it does not need.
"""

import runpy
import signal
import time

# Before there are threads of the libraries: one that has not blocked it takes it from the process and drops it.
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCONT])

import torch  # noqa: E402
import trainers  # noqa: E402

import skerry  # noqa: E402, F401

# The first optimizer of a process imports torch._dynamo, which takes seconds.
torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))])


def hurry(*_):
    time.sleep = lambda _: None  # what the trainer calls


signal.signal(signal.SIGUSR1, hurry)
print("ready", flush=True)
signal.sigwait([signal.SIGCONT])
runpy.run_path(trainers.DIGITS, run_name="__main__")
