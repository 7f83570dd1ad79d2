"""Cleans up when it is interrupted, as a Python program does."""

import time

print("working", flush=True)
try:
    time.sleep(600)
except KeyboardInterrupt:
    with open("cleaned-up", "w", encoding="utf-8") as file:
        file.write("yes")
