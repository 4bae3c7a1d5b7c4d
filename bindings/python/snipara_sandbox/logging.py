# SPDX-License-Identifier: Apache-2.0
"""Records of runs: a file for each, docs/reference/trajectory.md. Runs write them; these functions read them."""
from __future__ import annotations

import json
import os
from typing import Any, Dict, Iterator, List, Union

from ._errors import InvalidArgument, NotFound
from ._old import also
from .core import TrajectoryEvent

METADATA = "trajectory_metadata"


def _lines(path: str) -> Iterator[Dict[str, Any]]:
    """The records of a file; invalid lines are skipped."""
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                yield record


class TrajectoryLogger:
    """The records in a folder. Runs write them, line by line."""

    def __init__(self, log_dir: Union[str, "os.PathLike[str]"] = "./logs") -> None:
        self.log_dir = os.fspath(log_dir)

    def _ids(self) -> List[str]:
        try:
            return [name[:-6] for name in os.listdir(self.log_dir) if name.endswith(".jsonl")]
        except FileNotFoundError:
            return []

    def _path(self, trajectory_id: object) -> str:
        """The file with an id or a unique prefix of it."""
        given = str(trajectory_id)
        if not given or "/" in given:
            raise InvalidArgument("{!r} is not the id of a run".format(given))
        found = [name for name in self._ids() if name.startswith(given)]
        if given in found:
            found = [given]
        if len(found) > 1:
            raise InvalidArgument("the beginning {!r} fits {} runs; give more of the id".format(
                given, len(found)))
        if not found:
            raise NotFound("no run {!r} in {}".format(given, self.log_dir))
        return os.path.join(self.log_dir, found[0] + ".jsonl")

    def load_records(self, trajectory_id: object) -> List[Dict[str, Any]]:
        """Get all records of a run, unchanged. trajectory_id: or a prefix of it. NotFound: no such run."""
        return list(_lines(self._path(trajectory_id)))

    def load_trajectory(self, trajectory_id: object) -> List[TrajectoryEvent]:
        """Get the calls of the model in a run. trajectory_id: or a prefix of it. NotFound: no such run."""
        return [TrajectoryEvent.of(record) for record in _lines(self._path(trajectory_id))
                if "_type" not in record and "call_id" in record]

    def list_recent(self, limit: int = 10) -> List[Dict[str, Any]]:
        """List the newest runs: id, timestamp, calls, tokens, duration_ms, path. Other files are left out."""
        paths = [os.path.join(self.log_dir, name + ".jsonl") for name in self._ids()]
        rows: List[Dict[str, Any]] = []
        for path in sorted(paths, key=os.path.getmtime, reverse=True):
            if len(rows) == limit:
                break
            head: Dict[str, Any] = {}
            for record in _lines(path):
                if record.get("_type") == METADATA:
                    head = {**head, **record, "timestamp": head.get("timestamp") or record.get("timestamp")}
            if head:
                rows.append({"id": head.get("trajectory_id"), "timestamp": head["timestamp"],
                             "calls": head.get("event_count", 0), "tokens": head.get("total_tokens", 0),
                             "duration_ms": head.get("total_duration_ms", 0), "path": path})
        return rows

    def delete_trajectory(self, trajectory_id: object) -> bool:
        """Remove the file of a run; False: no such run."""
        try:
            os.unlink(self._path(trajectory_id))
        except NotFound:
            return False
        return True

    def cleanup_old(self, days: float = 7) -> int:
        """Remove files not written for this many days; returns their number."""
        from time import time
        old = [path for path in (os.path.join(self.log_dir, name + ".jsonl") for name in self._ids())
               if os.path.getmtime(path) < time() - days * 86400]
        for path in old:
            os.unlink(path)
        return len(old)


also(__name__, "trajectory")
