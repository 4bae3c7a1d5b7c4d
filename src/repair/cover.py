# SPDX-License-Identifier: Apache-2.0
"""Which lines of changed files run: the sitecustomize of every Python process that a test command starts.

cover.json beside it has {PATH: [LINE]}; covered-PID.json gets those of the lines that ran when a process ends. A frame
is traced line by line only while lines of its file are left, since that makes it many times slower.
"""

import atexit
import json
import os
import sys
import threading
from typing import Any, Dict, List, Set

FOLDER = os.path.dirname(os.path.abspath(__file__))
TOP = "/workspace/"
LEFT: Dict[str, Set[int]] = {}


def trace_lines(frame: Any, event: str, _: Any) -> Any:
    left = LEFT[frame.f_code.co_filename]
    left.discard(frame.f_lineno)
    frame.f_trace_lines = bool(left)
    return trace_lines


def trace(frame: Any, event: str, _: Any) -> Any:
    return trace_lines(frame, event, None) if LEFT.get(frame.f_code.co_filename) else None


def write(lines: Dict[str, List[int]]) -> None:
    sys.settrace(None)
    with open(os.path.join(FOLDER, f"covered-{os.getpid()}.json"), "w") as file:
        json.dump({path: sorted(set(all_of) - LEFT[TOP + path]) for path, all_of in lines.items()}, file)


with open(os.path.join(FOLDER, "cover.json")) as given:
    asked: Dict[str, List[int]] = json.load(given)
LEFT.update((TOP + path, set(lines)) for path, lines in asked.items())
atexit.register(write, asked)
threading.settrace(trace)
sys.settrace(trace)
