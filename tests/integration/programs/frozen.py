"""Writes to a file until somebody freezes the file system below it: frozen.py PATH."""

import os
import sys
import time

with open(sys.argv[1], "wb", buffering=0) as file:
    print("writing", flush=True)
    while True:
        os.pwrite(file.fileno(), b"x" * 4096, 0)
        time.sleep(0.01)
