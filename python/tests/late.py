"""Runs examples/digits.py once it is told to go on: by then all that takes long to import is there."""

import os
import runpy
import signal

import torch  # noqa: F401
import trainers

import skerry  # noqa: F401

print("ready", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
runpy.run_path(trainers.DIGITS, run_name="__main__")
