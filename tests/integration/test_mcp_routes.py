# SPDX-License-Identifier: Apache-2.0
"""How clients on other systems reach the MCP server: over ssh, and in a container. Our own client asks."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import lib

SSHD = "/usr/sbin/sshd"
CALL = ["mcp", "call", "execute_python", "-a", "code=6 * 7", "--"]


def call(program: str, *server: str, env: Mapping[str, str] | None = None) -> Any:
    done = subprocess.run([program, *CALL, *server], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=2 * lib.PATIENCE,
                          env={"PATH": "/usr/sbin:/usr/bin:/bin", "HOME": "/nonexistent", **(env or {})}, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[0]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def box() -> Iterator[lib.Sandbox]:
    made = lib.Sandbox("root" if os.geteuid() == 0 else "user")
    yield made
    made.close()


def test_over_ssh(box: lib.Sandbox, tmp_path: Path) -> None:
    """sshd of a port, keys and folder of its own; in a mount namespace, because it wants a folder in /run."""
    lib.need("sshd", os.path.exists(SSHD) and shutil.which("ssh") is not None, "openssh-server is not installed")
    lib.need("root", os.geteuid() == 0, "sshd lets only root log root in")
    box.start()
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)], check=True)
    port = free_port()
    known = (tmp_path / "host.pub").read_text().split()
    (tmp_path / "known").write_text(f"[127.0.0.1]:{port} {known[0]} {known[1]}\n")
    (tmp_path / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey \"{tmp_path}/host\"\n"
        f"AuthorizedKeysFile \"{tmp_path}/user.pub\"\n"
        "StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPidFile none\n"
        f"PermitRootLogin prohibit-password\nSetEnv PATH={box.bin}:/usr/bin:/bin "
        f"SNIPARA_SANDBOX_RUNTIME_DIR={box.runtime} SNIPARA_SANDBOX_STATE_DIR={box.state}\n")
    with open(tmp_path / "log", "w") as log:
        server = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec "$@"', "sh",
             SSHD, "-D", "-e", "-f", str(tmp_path / "config")], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        listening = lib.wait_for(lambda: server.poll() is not None or "listening" in (tmp_path / "log").read_text())
        lib.need("sshd", listening and server.poll() is None, (tmp_path / "log").read_text()[-300:])
        ssh = ["ssh", "-F", "none", "-i", str(tmp_path / "user"), "-p", str(port), "-o", "BatchMode=yes",
               "-o", "StrictHostKeyChecking=yes", "-o", f'UserKnownHostsFile="{tmp_path}/known"', "root@127.0.0.1"]
        lib.need("sshd", subprocess.run([*ssh, "true"], stdin=subprocess.DEVNULL, capture_output=True,
                                        timeout=lib.PATIENCE, check=False).returncode == 0, "root may not log in here")
        program = os.path.join(box.bin, "snipara-sandbox")
        assert call(program, *ssh, "snipara-sandbox", "mcp-serve", "--no-project") == "42"
        sessions = box.cli("sessions", "list", "--json").stdout
        assert "default" in sessions  # it stays for the next connection
    finally:
        server.terminate()
        server.wait(lib.PATIENCE)


@pytest.mark.parametrize("who", ["root", "user"])
def test_in_a_container(who: str) -> None:
    """Namespaces of its own for processes, mounts, network and names, as containers have; the daemon runs inside."""
    lib.need("bwrap", shutil.which("bwrap") is not None, "bubblewrap is not installed")
    box = lib.Sandbox(who)
    try:
        container = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run",
                     "--perms", "0700", "--dir", "/run/s", "--unshare-pid", "--unshare-ipc", "--unshare-uts",
                     "--unshare-net",
                     "--die-with-parent", "--setenv", "SNIPARA_SANDBOX_RUNTIME_DIR", "/run/s",
                     "--setenv", "SNIPARA_SANDBOX_STATE_DIR", "/run/s", *(["--unshare-user"] if box.uid != 0 else [])]
        program = os.path.join(box.bin, "snipara-sandbox")
        done = subprocess.run([program, *CALL, *container, program, "mcp-serve", "--no-project"], cwd="/",
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=2 * lib.PATIENCE,
                              env=box.env, **box.identity(), check=False)
        assert done.returncode == 0 and done.stdout.splitlines()[0] == "42", done.stderr
    finally:
        box.close()
