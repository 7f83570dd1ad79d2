"""All join the ring; then rank 0 takes half a second, says so, and listens on PORT: serve.py PORT."""

import socket
import sys
import time

import mlx.core as mx

group = mx.distributed.init(backend="ring", strict=True)
if group.rank() == 0:
    print("loading", flush=True)
    time.sleep(0.5)
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("0.0.0.0", int(sys.argv[1])))
    server.listen()
    print("Uvicorn running on http://0.0.0.0:" + sys.argv[1], flush=True)
time.sleep(600)
