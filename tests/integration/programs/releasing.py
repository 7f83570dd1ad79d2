"""Holds MB, and after SIGTERM frees them in STEPS steps, PAUSE seconds apart: releasing.py MB STEPS PAUSE."""

import mmap
import signal
import sys
import time

megabytes, steps, pause = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
size = megabytes * (1 << 20) // steps
blocks = []
for _ in range(steps):
    block = mmap.mmap(-1, size)
    for offset in range(0, size, mmap.PAGESIZE):
        block[offset] = 1  # a page counts once it was written
    blocks.append(block)


def release(*_: object) -> None:
    """Free it all, slowly, and end."""
    print("releasing", flush=True)
    while blocks:
        blocks.pop().close()
        time.sleep(pause)
    print("released", flush=True)
    sys.exit(0)


signal.signal(signal.SIGTERM, release)
print("loaded", flush=True)
while True:
    time.sleep(600)
