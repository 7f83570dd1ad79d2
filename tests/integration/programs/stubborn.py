"""Ignores SIGTERM."""

import signal
import time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ignoring", flush=True)
time.sleep(600)
