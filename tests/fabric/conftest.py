"""The fixtures of the fabric, for its own tests."""

from .plugin import fabric, whole_fabric

__all__ = ["fabric", "whole_fabric"]
