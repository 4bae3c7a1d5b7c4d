# SPDX-License-Identifier: Apache-2.0
"""Which lines of changed files run: the sitecustomize of every Python process that a test command starts.

cover.json beside it has the files, covered-PID.json gets {PATH: [LINE]} when a process ends. Only frames of these files
are traced line by line.
"""

import atexit
import json
import os
import sys
import threading
from typing import Any, Dict, Set

FOLDER = os.path.dirname(os.path.abspath(__file__))
TOP = "/workspace/"
LINES: Dict[str, Set[int]] = {}


def trace_lines(frame: Any, event: str, _: Any) -> Any:
    LINES[frame.f_code.co_filename].add(frame.f_lineno)
    return trace_lines


def trace(frame: Any, event: str, _: Any) -> Any:
    if frame.f_code.co_filename not in LINES:
        return None
    LINES[frame.f_code.co_filename].add(frame.f_lineno)
    return trace_lines


def write() -> None:
    sys.settrace(None)
    with open(os.path.join(FOLDER, f"covered-{os.getpid()}.json"), "w") as file:
        json.dump({path[len(TOP):]: sorted(lines) for path, lines in LINES.items()}, file)


with open(os.path.join(FOLDER, "cover.json")) as given:
    LINES.update((TOP + path, set()) for path in json.load(given))
atexit.register(write)
threading.settrace(trace)
sys.settrace(trace)
