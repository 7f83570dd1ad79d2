"""Every rank writes its arguments and its environment, byte for byte, into its working directory; then it goes on."""

import json
import os
import sys
import time

found = {
    "argv": [os.fsencode(word).decode("latin-1") for word in sys.argv[1:]],
    "environ": {name.decode("latin-1"): value.decode("latin-1") for name, value in os.environb.items()},
    "cwd": os.getcwd(),
}
path = f"words-{os.environ['MLX_RANK']}.json"
with open(path + ".new", "w", encoding="utf-8") as file:
    json.dump(found, file)
os.rename(path + ".new", path)
time.sleep(600)
