# SPDX-License-Identifier: Apache-2.0
"""A runtime whose programs die and fail as told, and the disk as a power cut leaves it."""

import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import lib
from faults import Faults


class Rig:
    def __init__(self, who: str = "root", env: Mapping[str, str] | None = None, io_max: int = 0,
                 tier: str = "native") -> None:
        self.folder = tempfile.mkdtemp(prefix="snp-rig-", dir="/tmp")
        self.faults = Faults(os.path.join(self.folder, "faults"), io_max)
        os.chmod(self.folder, 0o755)
        self.box = lib.Sandbox(who, env={**self.faults.env, **(env or {})}, tier=tier)

    def close(self) -> None:
        self.faults.forget()
        self.box.close()
        self.faults.close()
        os.unlink(self.faults.path)
        os.rmdir(self.folder)

    def start(self) -> int:
        """Start the daemon if it does not run. What is told to it in the meantime stays told."""
        for _ in range(3):
            try:
                return self.box.start()
            except RuntimeError:
                if not self.faults.obeyed():
                    raise  # nobody told it to die
                self.daemon.wait()
        return self.box.start()

    @property
    def daemon(self) -> subprocess.Popen[bytes]:
        """That was started last."""
        assert self.box.daemon is not None
        return self.box.daemon

    def kill(self) -> None:
        self.daemon.kill()
        self.daemon.wait()

    def has(self, method: str) -> bool:
        """Whether the daemon knows a method."""
        with self.box.client() as rpc:
            kind, head, _, _ = rpc.call(method)
        return kind == lib.RESPONSE or head["code"] != "unsupported"

    def folder_of(self, pid: int) -> bool:
        """Whether a process runs with our folders."""
        try:
            with open(f"/proc/{pid}/environ", "rb") as text:
                return self.box.runtime.encode() in text.read()
        except OSError:
            return False

    def value(self, code: str, **kwargs: Any) -> str | None:
        """The value of a cell; None if it cannot be had."""
        try:
            value: str | None = self.box.exec(code, **kwargs)["value"]
            return value
        except lib.CliError:
            return None


MakeRig = Callable[..., Rig]  # with the arguments of a Rig
