# SPDX-License-Identifier: Apache-2.0
"""The code takes over the stream of its interpreter and says what it likes.

It must end with a clear result; what the sandbox attests must stay true; other sessions
must not notice. The stream exists only inside, so there is no control run.
"""

import os
import secrets
from collections.abc import Callable, Iterator

import lib
import pytest

FIND = '''
import json, os, socket, struct, sys, time
streams = []
for fd in range(3, 1024):
    try:
        if os.readlink("/proc/self/fd/%d" % fd).startswith("socket:"):
            streams.append(socket.socket(fileno=os.dup(fd)))
    except OSError:
        pass
assert len(streams) == 1, streams
guest = streams[0]
guest.setblocking(True)
def frame(kind, head, raw=b"", ident=0, body_len=None, head_len=None):
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    body_len = len(text) + len(raw) if body_len is None else body_len
    head_len = len(text) if head_len is None else head_len
    guest.sendall(struct.pack("<IIIB3x", body_len, ident, head_len, kind) + text + raw)
def done(cell, status="ok", **more):
    frame(35, {"status": status, "value": None, "result": None, "error": None, "exit_code": None, **more}, ident=cell)
'''

# Each breaks a rule of docs/wire.md.
BROKEN = {
    "garbage": 'guest.sendall(os.urandom(4096)); time.sleep(600)',
    "http": 'guest.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n"); time.sleep(600)',
    "giant body": 'frame(33, {}, body_len=0xffffffff); time.sleep(600)',
    "head longer than body": 'frame(33, {}, head_len=0x7fffffff); time.sleep(600)',
    "unknown type": 'frame(99, {}); time.sleep(600)',
    "type of the daemon's protocol": 'frame(2, {}); time.sleep(600)',
    "no json": 'frame(33, b"[[[[[["); time.sleep(600)',
    "deep json": 'frame(33, b"[" * 100000 + b"]" * 100000); time.sleep(600)',
    "duplicate keys": """frame(35, b'{"status":"ok","status":"error"}', ident=1); time.sleep(600)""",
    "nul in a string": """frame(35, b'{"status":"o\\\\u0000k"}', ident=1); time.sleep(600)""",
    "end of another cell": 'done(77); time.sleep(600)',
    "end with a wrong status": 'done(1, status="timeout"); time.sleep(600)',
    "display that lies about lengths": 'frame(33, {"mime": [["text/plain", 1 << 40]]}, b"x"); time.sleep(600)',
    "display with a negative length": 'frame(33, {"mime": [["text/plain", -1], ["x", 2]]}, b"x"); time.sleep(600)',
    "closed": 'guest.shutdown(socket.SHUT_RDWR); time.sleep(600)',
}


@pytest.fixture
def witness(sandbox: lib.Sandbox) -> Iterator[lib.Sandbox]:
    """A session from before; whatever happens it must have its variable and answer."""
    secret = secrets.randbelow(1 << 30)
    sandbox.exec(f"kept = {secret}", session="witness")
    yield sandbox
    assert sandbox.exec("kept", session="witness")["value"] == str(secret)
    sandbox.destroy("witness")


@pytest.mark.parametrize("name", BROKEN)
def test_broken_protocol_ends_the_interpreter_with_a_reason(witness: lib.Sandbox, name: str) -> None:
    liar = "liar-" + secrets.token_hex(4)
    result = witness.exec(FIND + BROKEN[name], session=liar, options=["--timeout", "600"])
    assert result["status"] == "killed" and result["state"] == "rolled_back"
    assert result["error"]["message"]
    again = witness.exec("1 + 1", session=liar)
    assert again["value"] == "2" and again["restarted"] is False
    witness.destroy(liar)


def test_half_a_frame_is_waited_for_until_the_limit(witness: lib.Sandbox) -> None:
    result = witness.exec(FIND + 'guest.sendall(b"\\0\\1")\ntime.sleep(600)', options=["--timeout", "1"])
    assert result["status"] == "timeout"


def test_forged_end_does_not_hide_a_signal(witness: lib.Sandbox) -> None:
    """It says "ok" and dies at once: the session must not count as healthy afterwards."""
    code = FIND + "done(1, value='forged')\nos.kill(os.getpid(), 9)"
    name = "forger-" + secrets.token_hex(4)
    result = witness.exec(code, session=name)
    assert result["status"] in ("ok", "killed")
    if result["status"] == "ok":  # the claim, and it is marked as one
        assert "status" in result["sources"]["claimed"] and "signal" in result["sources"]["attested"]
    try:
        again = witness.exec("1 + 1", session=name)
    except lib.CliError as told:  # what the session lacks
        assert "was not run" in told.done.stderr or "--recover" in told.done.stderr
    else:  # it was asked while it died
        assert again["status"] == "killed" and again["signal"] == "SIGKILL" and again["state"] == "lost"
    witness.destroy(name)


def test_a_dead_seed_is_told_and_ends_only_its_session(witness: lib.Sandbox) -> None:
    """The process that would give a new interpreter can be killed by the code: then there is none."""
    name = "seedless-" + secrets.token_hex(4)
    code = ("import os\nfor pid in range(2, 10):\n    if pid != os.getpid():\n"
            "        try: os.kill(pid, 9)\n        except OSError: pass\n")
    assert witness.exec(code + "7", session=name)["value"] == "7"
    assert witness.exec("8", session=name)["value"] == "8"
    witness.exec("import os; os.kill(os.getpid(), 9)", session=name)
    try:
        after = witness.exec("9", session=name)
        assert after["status"] == "killed" and after["error"]["message"] or after["value"] == "9"
    except lib.CliError as told:
        assert told.done.returncode == 1 and told.done.stderr.count("\n") == 1
    witness.destroy(name)


def test_attested_members_cannot_be_forged(witness: lib.Sandbox) -> None:
    forged = '''
head = {"status": "ok", "value": "v", "result": None, "error": None, "exit_code": None}
head.update(session="0" * 32, name="other", cell=99, state="kept", signal="SIGFAKE", restarted=True,
            limit={"key": "forged"}, usage={"wall_us": 1}, manifest={"forged": True}, files={"created": ["forged"]},
            sources={"attested": ["value"]}, denials_dropped=12345, denials=[{"source": "kernel"}])
frame(34, {"source": "kernel", "control": "network", "operation": "forged", "object": "", "rule": "", "hint": ""})
frame(35, head, ident=1)
time.sleep(600)
'''
    name = "honest-" + secrets.token_hex(4)
    result = witness.exec(FIND + forged, session=name)
    text = str({key: value for key, value in result.items() if key != "denials"})
    assert "forged" not in text and "SIGFAKE" not in text and "'value'" not in str(result["sources"]["attested"])
    assert result["name"] == name and result["cell"] == 1 and result["denials_dropped"] == 0
    assert [denial["source"] for denial in result["denials"]] == ["guest"]
    witness.destroy(name)


def test_flood_of_displays_is_bounded(witness: lib.Sandbox) -> None:
    flood = '''
for number in range(3000):
    frame(33, {"mime": [["text/plain", 1000]]}, b"d" * 1000)
'''
    result = witness.exec(FIND + flood, options=["--timeout", "600"], timeout=4 * lib.PATIENCE)
    assert result["status"] == "ok" and len(result["displays"]) <= 64


def test_flood_of_large_displays_is_bounded(witness: lib.Sandbox) -> None:
    flood = '''
for number in range(40):
    frame(33, {"mime": [["text/plain", 4 << 20]]}, b"d" * (4 << 20))
'''
    result = witness.exec(FIND + flood, options=["--timeout", "600"], timeout=4 * lib.PATIENCE)
    assert result["status"] in ("ok", "killed", "limit")
    assert sum(len(str(display)) for display in result["displays"]) <= 80 << 20


def test_flood_of_denials_is_bounded(witness: lib.Sandbox) -> None:
    flood = '''
for number in range(20000):
    frame(34, {"control": "network", "operation": "o%d" % number, "object": "", "rule": "", "hint": "h" * 300})
'''
    result = witness.exec(FIND + flood, options=["--timeout", "600"], timeout=4 * lib.PATIENCE)
    assert result["status"] in ("ok", "killed") and len(result["denials"]) == 32
    assert result["denials_dropped"] > 1000


def test_flood_of_refused_calls_does_not_hold_up_others(witness: lib.Sandbox) -> None:
    """They are answered while it goes on."""
    flood = '''
import ctypes
libc = ctypes.CDLL(None)
refused = 0
while True:
    refused += libc.syscall(321, 0, 0, 0) == -1
    if refused % 1000 == 0:
        print(refused, flush=True)
'''
    with witness.popen("exec", "--timeout", "600", flood, text=True) as flooding:
        output = lib.some(flooding.stdout)
        for number in range(5):
            assert output.readline() == f"{1000 * (number + 1)}\n"
            assert witness.exec("kept", session="witness")["status"] == "ok"
        assert flooding.poll() is None
        flooding.kill()


def test_passed_descriptors_cost_nothing(witness: lib.Sandbox) -> None:
    """Thousands of messages with descriptors: the supervisor must not run out of its own."""
    send = '''
import array
null = os.open("/dev/null", os.O_RDONLY)
for number in range(300):
    text = b'{"mime": [["text/plain", 1]]}'
    message = struct.pack("<IIIB3x", len(text) + 1, 0, len(text), 33) + text + b"x"
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [null] * 50))]
    guest.sendmsg([message], rights)
'''
    tier = witness.tier_pid()
    before = len(os.listdir(f"/proc/{tier}/fd"))
    result = witness.exec(FIND + send, options=["--timeout", "600"], timeout=4 * lib.PATIENCE)
    assert result["status"] in ("ok", "killed", "error")
    # Room for spares being made.
    assert lib.wait_for(lambda: len(os.listdir(f"/proc/{tier}/fd")) < before + 50)


def test_forged_output_of_a_command_is_only_output(witness: lib.Sandbox) -> None:
    """A command has no stream to lie on; its exit code is attested."""
    result = witness.exec(sh="ls -l /proc/self/fd | grep -c socket; exit 7")
    assert result["stdout"] == "0\n" and result["exit_code"] == 7 and "exit_code" in result["sources"]["attested"]


def test_a_forged_end_before_a_death_leaves_the_session_whole(fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    """The next cells wait already when the liar dies; each is told what became of it or of the session."""
    sandbox = fresh_sandbox("root" if os.geteuid() == 0 else "user")
    with sandbox.client() as rpc:
        for n in range(8):
            codes = [FIND + "done(1)\nos.kill(os.getpid(), 9)\n", "'se' + 'cond'", "'thi' + 'rd'"]
            sent = [rpc.send({"method": "exec", "session": f"liar{n}", "kind": "python", "code_len": len(code)},
                             code.encode()) for code in codes]
            ends: dict[int, tuple[int, lib.Json]] = {}
            while len(ends) < len(sent):
                kind, ident, head, _ = rpc.recv()
                if kind != lib.EVENT:
                    ends[ident] = kind, head
            assert ends[sent[0]][0] == lib.RESPONSE
            for ident, value in ((sent[1], "'second'"), (sent[2], "'third'")):
                kind, head = ends[ident]
                if kind == lib.ERROR:
                    assert "was not run" in head["message"] or lib.ways(head), head
                else:
                    assert head["status"] == "killed" or head["value"] == value, head
            kind, head, _, _ = rpc.call("exec", b"'last'", session=f"liar{n}", kind="python", code_len=6,
                                        recover="checkpoint")
            assert kind == lib.RESPONSE and head["value"] == "'last'", head
