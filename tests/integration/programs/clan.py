"""Has three children: one in a new session, one that was forked twice and led away, one that ignores SIGTERM."""

import os
import signal
import time

NAMES = ("session", "double", "stubborn")


def live(name: str) -> None:
    """Say so in a file of its own, and go on."""
    with open(f"{name}.new", "w", encoding="utf-8") as file:
        file.write(str(os.getpid()))
    os.rename(f"{name}.new", name)
    time.sleep(600)


for name in NAMES:
    if os.fork():
        continue
    if name == "session":
        os.setsid()
    if name == "double":
        if os.fork():
            os._exit(0)
        os.setsid()
        if os.fork():
            os._exit(0)
    if name == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    live(name)
print("forked", flush=True)
time.sleep(600)
