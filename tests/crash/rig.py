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

    def start(self):
        """Start the daemon if it does not run. What is told to it in the meantime stays told."""
        for _ in range(3):
            try:
                return self.box.start()
            except RuntimeError:
                if not self.faults.obeyed():
                    raise  # nobody told it to die
                self.box.daemon.wait()
        return self.box.start()

    def has(self, method):
        """Whether the daemon knows a method."""
        with self.box.client() as rpc:
            kind, head, _, _ = rpc.call(method)
        return kind == lib.RESPONSE or head["code"] != "unsupported"

    def folder_of(self, pid):
        """Whether a process runs with our folders."""
        try:
            with open(f"/proc/{pid}/environ", "rb") as text:
                return self.box.runtime.encode() in text.read()
        except OSError:
            return False

    def value(self, code, **kwargs):
        """The value of a cell; None if it cannot be had."""
        try:
            return self.box.exec(code, **kwargs)["value"]
        except lib.CliError:
            return None
