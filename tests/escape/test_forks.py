# SPDX-License-Identifier: Apache-2.0
"""Two forks of one template: nothing that should be chance or name is the same; nothing of one is in the other."""

import os

import pytest

from lib import Sandbox

LOOK = {
    "random": "import random; random.random()",
    "secrets": "import secrets; secrets.token_hex()",
    "os.urandom": "import os; os.urandom(8)",
    "uuid1": "import uuid; uuid.uuid1()",
    "uuid4": "import uuid; uuid.uuid4()",
    "tempfile": "import tempfile; tempfile.mktemp()",
    "ssl": "import ssl; ssl.RAND_bytes(8)",
    "hostname": "import socket; socket.gethostname()",
    "network namespace": "import os; os.readlink('/proc/self/ns/net')",
    "mount namespace": "import os; os.readlink('/proc/self/ns/mnt')",
    "pid namespace": "import os; os.readlink('/proc/self/ns/pid')",
    "user namespace": "import os; os.readlink('/proc/self/ns/user')",
    "ipc namespace": "import os; os.readlink('/proc/self/ns/ipc')",
    "uts namespace": "import os; os.readlink('/proc/self/ns/uts')",
}


@pytest.mark.parametrize("what", LOOK)
def test_two_forks_differ(sandbox: Sandbox, what: str) -> None:
    """All live at the same time: the kernel gives the number of a namespace that is gone again."""
    names = ["differs-" + str(i) for i in range(3)]
    values = [sandbox.exec(LOOK[what], session=name)["value"] for name in names]
    for name in names:
        sandbox.destroy(name)
    assert None not in values and len(set(values)) == 3, values


def test_two_forks_differ_in_numpy(sandbox: Sandbox) -> None:
    pytest.importorskip("numpy")
    code = "import numpy; (numpy.random.rand(), numpy.random.default_rng().random())"
    first, second = (eval(sandbox.exec(code, options=["--template", "data"])["value"],
                          {"np": None, "__builtins__": {}}) for _ in range(2))
    assert first[0] != second[0] and first[1] != second[1]


def test_a_restarted_interpreter_differs_from_its_first(sandbox: Sandbox) -> None:
    first = sandbox.exec("import random; random.random()", session="again")["value"]
    sandbox.exec("import os; os.kill(os.getpid(), 9)", session="again")
    second = sandbox.exec("import random; random.random()", session="again")["value"]
    sandbox.destroy("again")
    assert None not in (first, second) and first != second


def test_sessions_run_as_different_users_of_the_host(sandbox: Sandbox) -> None:
    """As root every session has ids of its own; as a user all are that user."""
    ids = set()
    for name in ("a", "b"):
        sandbox.exec(f"import ctypes; ctypes.CDLL(None).prctl(15, b'idmark-{name}', 0, 0, 0)", session=name)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm") as comm:
                if comm.read().startswith("idmark-"):
                    ids.add(os.stat(f"/proc/{pid}").st_uid)
        except OSError:
            pass
    for name in ("a", "b"):
        sandbox.destroy(name)
    if sandbox.who == "root":
        assert len(ids) == 2 and min(ids) > 100000
    else:
        assert ids == {sandbox.uid}


def test_a_session_sees_only_itself(sandbox: Sandbox) -> None:
    code = "import os; sorted(int(p) for p in os.listdir('/proc') if p.isdigit())"
    assert sandbox.exec(code)["value"] == "[1, 2]"
    # pid 1, itself, its helper, the pristine copy
    assert sandbox.exec(code, session="seeded")["value"] == "[1, 2, 3, 4]"
    after = eval(sandbox.exec(code, session="seeded")["value"])  # and a copy, before it one more
    assert after[:4] == [1, 2, 3, 4] and len(after) in (5, 6)
    sandbox.destroy("seeded")
    assert sandbox.exec("import os; os.path.exists('/sys')")["value"] == "False"
    assert sandbox.exec("import os; os.listdir('/home')")["value"] == "[]"


def test_nothing_is_inherited_but_the_stream(sandbox: Sandbox) -> None:
    code = '''
import os, stat
kinds = {}
for fd in range(1024):
    try:
        kinds.setdefault(os.readlink("/proc/self/fd/%d" % fd).split(":")[0], []).append(fd)
    except OSError:
        pass
sorted((kind, len(set(os.fstat(fd).st_ino for fd in fds))) for kind, fds in kinds.items())
'''
    # Two pipes, /dev/null, one stream; each perhaps under two numbers.
    assert sandbox.exec(code)["value"] == "[('/dev/null', 1), ('pipe', 2), ('socket', 1)]"
