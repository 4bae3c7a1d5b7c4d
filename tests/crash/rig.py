# SPDX-License-Identifier: Apache-2.0
"""A runtime whose programs die and fail as told, and the disk as a power cut leaves it."""

import os
import tempfile

import lib
from faults import Faults


class Rig:
    def __init__(self, who="root", env=None, io_max=0, tier="native"):
        self.folder = tempfile.mkdtemp(prefix="snp-rig-", dir="/tmp")
        self.faults = Faults(os.path.join(self.folder, "faults"), io_max)
        os.chmod(self.folder, 0o755)
        self.box = lib.Sandbox(who, env={**self.faults.env, **(env or {})}, tier=tier)

    def close(self):
        self.faults.forget()
        self.box.close()
        self.faults.close()
        os.unlink(self.faults.path)
        os.rmdir(self.folder)

    def value(self, code, **kwargs):
        """The value of a cell; None if it cannot be had."""
        try:
            return self.box.exec(code, **kwargs)["value"]
        except lib.CliError:
            return None

    @staticmethod
    def rebuild(records):
        """{path: bytes} of the files that are there after these records."""
        files, names = {}, {}
        for r in records:
            if r.op in ("write", "create", "truncate") and r.path not in names:
                names[r.path] = r.ino
                files[r.ino] = bytearray()
            if r.op == "write":
                data = files[names[r.path]]
                data.extend(bytes(max(0, r.offset + len(r.data) - len(data))))
                data[r.offset:r.offset + len(r.data)] = r.data
            elif r.op == "truncate":
                data = files[names[r.path]]
                data.extend(bytes(max(0, r.offset - len(data))))
                del data[r.offset:]
            elif r.op == "rename" and r.path in names:
                names[r.other] = names.pop(r.path)
            elif r.op == "link" and r.path in names:
                names[r.other] = names[r.path]
            elif r.op == "unlink":
                names.pop(r.path, None)
        return {path: bytes(files[ino]) for path, ino in names.items()}
