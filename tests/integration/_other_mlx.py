"""An interpreter on a host whose MLX is a real one, of another version: installed once, below build/."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

from tests.integration._playbooks import CHECKOUT


def older_mlx() -> Path:
    """The folder of an MLX older than the one that the tests run with. Raises RuntimeError when pip does not get it."""
    own = importlib.metadata.version("mlx")
    version = sys.version_info
    folder = CHECKOUT / f"build/mlx-before-{own}-py{version.major}{version.minor}"
    done = folder / "complete"
    if not done.exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--no-deps", "--target", str(folder)]
        wanted = [f"{name}<{own}" for name in ("mlx", "mlx-cpu")]
        got = subprocess.run([*command, *wanted], capture_output=True, text=True, timeout=120, check=False)
        if got.returncode:
            raise RuntimeError(f"pip does not install {wanted}: {got.stderr.strip().splitlines()[-1:]}")
        done.touch()
    return folder


def interpreter(folder: Path) -> str:
    """A program that is this Python with that MLX."""
    return f'#!/bin/sh\nPYTHONPATH={folder} exec {sys.executable} "$@"\n'
