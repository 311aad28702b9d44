"""What processes use: processor time, and bytes that they read and write."""

from __future__ import annotations

import contextlib
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_IO = Path("/proc/self/io")


@dataclass
class Usage:
    """What one or several processes used."""

    cpu: float = 0.0  # seconds of processors
    # bytes read from files, stores and other processes; 0 on systems other than Linux
    read: int = 0
    written: int = 0  # bytes written to them
    messages: int = 0  # sent to workers, each with one or several pieces of work

    @classmethod
    def so_far(cls) -> Usage:
        """Of this process, and what devices used for it."""
        counts = {}
        with contextlib.suppress(OSError):
            counts = dict(line.split(": ") for line in _IO.read_text().splitlines())
        read, written = int(counts.get("rchar", 0)), int(counts.get("wchar", 0))
        return cls(time.process_time(), read, written) + _added

    def __add__(self, other: Usage) -> Usage:
        """The sum."""
        return Usage(
            self.cpu + other.cpu,
            self.read + other.read,
            self.written + other.written,
            self.messages + other.messages,
        )

    def __sub__(self, other: Usage) -> Usage:
        """The difference."""
        return self + Usage(-other.cpu, -other.read, -other.written, -other.messages)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a manifest."""
        return asdict(self) | {"cpu": round(self.cpu, 3)}


_added = Usage()


def add_usage(used: Usage) -> None:
    """Count what another process used for this one."""
    global _added  # noqa: PLW0603
    _added += used
