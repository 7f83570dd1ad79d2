"""Rank RANK never joins the ring, the others do and wait for it: absent.py RANK."""

import os
import sys
import time

import mlx.core as mx

if os.environ["MLX_RANK"] == sys.argv[1]:
    print("thinking", flush=True)
    time.sleep(600)
mx.distributed.init(backend="ring", strict=True)
