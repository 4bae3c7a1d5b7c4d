#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A tier without any isolation that does what the code it is given says, for the daemon's tests.

Speaks the tier protocol of docs/wire.md on descriptor 3. Code is Python with a few words:
emit(text), wait(seconds) (ends early when interrupted; without a number only then), die(), bad(), gone(),
until(path) (the file is there), own(...) (a manifest of the cell's own), lose() (state lost), torn(n) (the next n
checkpoints end in the middle), slow(seconds) (the next checkpoint takes so long; a path: till it is there),
python(version) (another one), member(...) (of the result), late(seconds) (answers so much later, whatever happens),
refuse(why) (no further branches), aside() (of what is saved a copy is made first, and told), branches() (their
numbers), vanish(path) (its session is gone once it has been saved, and nobody is told; who asks for it hears so once
the file is there), lingers(path) (its end is answered once the file is there), loads(path) (restores wait for the
file; path.begun says that one does).
Of a session's environment: LINGERS=path (lingers from the start), NEVER=path (not opened, once the file is there).
Variables that pickle are saved, others are listed as lost.
"""

import array
import hashlib
import json
import os
import pickle
import signal
import socket
import struct
import sys
import threading
import time
from typing import IO, Any

Json = dict[str, Any]
ABOUT = {"rank": 200, "guarantees": [], "limits": {}, "verbs": [
    "probe", "open", "exec", "interrupt", "answer", "close", "put", "get", "ls", "output", "forget", "stats",
    "snapshot", "rollback", "drop", "memory", "save", "load", "rootfs"]}
if sys.argv[1:] == ["--describe"]:
    print(json.dumps(ABOUT))
    sys.exit(0)

LINK = socket.socket(fileno=3)
LOCK = threading.Lock()
HEADER = struct.Struct("<IIIB3x")
MANIFEST = {
    "tier": "native", "template": "base", "interpreter": "scripted", "python": "3", "kernel": "none",
    "controls": {"network": {"enforced": False}}, "degraded": [],
}
OURS = ("OPEN", "HEAD", "STDIN", "emit", "display", "wait", "die", "own", "bad", "gone", "lose", "torn", "slow",
        "member", "late", "until", "python", "refuse", "aside", "branches", "vanish", "holds", "each",
        "give_up", "lingers", "loads", "__builtins__")
ITEM, DATA, END = 80, 81, 82
FDS: list[int] = []
USAGE = ("wall_us", "cpu_us", "memory_peak_bytes", "stdout_bytes", "stderr_bytes", "written_bytes",
         "setup_us")
sessions: dict[str, "Session"] = {}
SILENCE: dict[str, str] = {}
LOADS: list[str] = []


class Session:
    def __init__(self, head: Json) -> None:
        self.names: Json = {"OPEN": head}
        self.files: dict[str, bytes] = {}
        self.interrupted = threading.Event()
        self.torn = 0
        self.slow = 0
        self.branches: dict[int, tuple[Json, dict[str, bytes]]] = {}
        self.last_branch = 0
        self.refuses = None
        self.aside = False
        self.vanishes = ""
        self.lingers = (head.get("env") or {}).get("LINGERS", "")
        self.bytes = 1
        self.each = 0


def send(kind: int, ident: int, head: Json, raw: bytes = b"") -> None:
    text = json.dumps(head).encode()
    with LOCK:
        LINK.sendall(HEADER.pack(len(text) + len(raw), ident, len(text), kind) + text + raw)


def receive(count: int) -> bytes:
    data = b""
    while len(data) < count:
        part, extra, _, _ = LINK.recvmsg(count - len(data), socket.CMSG_SPACE(64))
        for _, kind, payload in extra:
            if kind == socket.SCM_RIGHTS:
                fds = array.array("i")
                fds.frombytes(payload)
                FDS.extend(fds)
        if not part:
            os._exit(0)
        data += part
    return data


def result(head: Json, **members: Any) -> Json:
    answer = {
        "session": head["session"], "cell": head["cell"], "status": "ok", "state": "kept",
        "exit_code": None, "signal": None, "value": None, "result": None, "error": None,
        "denials": [], "denials_dropped": 0, "restarted": False, "limit": None, "usage": dict.fromkeys(USAGE, 1),
        "output": {"truncated": False, "stdout_chars": 0, "stderr_chars": 0, "handle": None},
        "files": {"created": [], "modified": [], "deleted": [], "truncated": False},
        "sources": {"attested": [], "claimed": []},
    }
    answer.update(members)
    return answer


def until(path: str) -> None:
    while not os.path.exists(path):
        time.sleep(0.01)


def end(ident: int, session: Session) -> None:
    until(session.lingers or "/")
    send(2, ident, {})


def run_cell(ident: int, head: Json, raw: bytes) -> None:
    session = sessions[head["session"]]
    members: Json = {}
    code = raw[: head["code_len"]].decode()
    names = session.names
    names.update(
        HEAD=head,
        STDIN=raw[head["code_len"]:],
        emit=lambda text, stream="stdout": send(4, ident, {"event": stream}, text.encode()),
        display=lambda png: send(4, ident, {"event": "display", "mime": [["image/png", len(png)]]}, png),
        wait=session.interrupted.wait,
        die=lambda: os.kill(os.getpid(), signal.SIGKILL),
        lose=lambda: members.update(state="lost", restarted=False),
        torn=lambda n=1: setattr(session, "torn", n),
        member=lambda **more: members.update(more),
        late=time.sleep,
        until=until,
        slow=lambda seconds: setattr(session, "slow", seconds),
        vanish=lambda path="/": setattr(session, "vanishes", path),
        loads=LOADS.append,
        lingers=lambda path: setattr(session, "lingers", path),
        refuse=lambda why: setattr(session, "refuses", why),
        aside=lambda: setattr(session, "aside", True),
        branches=lambda: sorted(session.branches),
        holds=lambda size: setattr(session, "bytes", size),
        each=lambda size: setattr(session, "each", size),  # what a branch holds for itself
        give_up=lambda number: session.branches.pop(number),
        python=lambda version: MANIFEST.update(python=version),
        own=lambda **more: members.update(manifest={**MANIFEST, **more}),
        bad=lambda: send(2, ident, {"unexpected": 1}),
        gone=lambda: send(4, 0, {"event": "gone", "session": head["session"], "reason": "as told"}),
    )
    try:
        if head["kind"] == "command":
            members["value"] = repr(head["argv"])
        elif code:
            members["value"] = repr(eval(compile(code, "cell", "eval"), names))
    except SyntaxError:
        exec(compile(code, "cell", "exec"), names)
    except Exception as problem:
        members["status"] = "error"
        members["error"] = {"type": type(problem).__name__, "message": str(problem),
                            "traceback": f"{problem!r}\n", "line": None, "hint": None}
    if session.interrupted.is_set():
        members["status"] = "interrupted"
    send(2, ident, result(head, **members))


def frame(out: IO[bytes], kind: int, head: Json | None, raw: bytes = b"") -> None:
    text = b"" if head is None else json.dumps(head).encode()
    out.write(HEADER.pack(len(text) + len(raw), 0, len(text), kind) + text + raw)


def item(out: IO[bytes], known: set[str], kind: str, name: str, data: bytes, meta: Json) -> None:
    key = hashlib.blake2b(data, digest_size=16).hexdigest()
    same = key in known
    first = b"" if same else data[: 1 << 19]
    frame(out, ITEM, {"kind": kind, "name": name, "key": key, "size": len(data), "same": same, "meta": meta}, first)
    for at in range(len(first), 0 if same else len(data), 1 << 19):
        frame(out, DATA, None, data[at: at + (1 << 19)])


def copied(session: Session) -> tuple[Json, dict[str, bytes]]:
    """Variables and files as they are now: what a sleeping fork would hold."""
    names = {}
    for name, value in session.names.items():
        if name in OURS:
            continue
        try:
            names[name] = pickle.loads(pickle.dumps(value))
        except Exception:
            names[name] = value
    return names, dict(session.files)


def branch(ident: int, session: Session) -> None:
    if session.refuses:
        return send(3, ident, {"code": "unsupported", "message": session.refuses})
    session.last_branch += 1
    session.branches[session.last_branch] = copied(session)
    return send(2, ident, {"branch": session.last_branch, "us": 1})


def go_back(ident: int, session: Session, head: Json) -> None:
    if head["branch"] not in session.branches:
        return send(3, ident, {"code": "not_found", "message": "no such branch"})
    holder = Session({})
    holder.names, holder.files = session.branches[head["branch"]]
    names, files = copied(holder)
    session.names = {**{name: value for name, value in session.names.items() if name in OURS}, **names}
    session.files = files
    return send(2, ident, {"us": 1})


def save(*args: Any) -> None:
    try:
        save_all(*args)
    except OSError as problem:
        send(3, args[0], {"code": "peer", "message": f"the reader has gone: {problem}"})


def save_all(ident: int, session: Session, known: set[str], fd: int, number: int | None = None) -> None:
    delay, session.slow = session.slow, 0
    if session.aside and number is None:
        holder = Session({})
        holder.names, holder.files = copied(session)
        send(4, ident, {"event": "taken"})
        session = holder
    if isinstance(delay, str):
        until(delay)
    else:
        time.sleep(delay)
    if number is not None and number not in session.branches:
        os.close(fd)
        return send(3, ident, {"code": "not_found", "message": "no such branch"})
    if number is not None:
        holder = Session({})
        holder.names, holder.files = session.branches[number]
        holder.torn, session.torn = min(1, session.torn), max(0, session.torn - 1)
        session = holder
    with open(fd, "wb") as out:
        count = 0
        for name, value in list(session.names.items()):
            if name in OURS:
                continue
            count += 1
            try:
                item(out, known, "vars", name, pickle.dumps(value), {"names": {name: type(value).__name__}})
            except Exception as problem:
                frame(out, ITEM, {"kind": "lost", "name": name, "key": "", "size": 0, "same": False,
                                  "meta": {"type": type(value).__name__, "reason": str(problem)}})
        if session.torn:
            session.torn -= 1
            return send(2, ident, {"us": 1})
        frame(out, END, {"part": "vars", "items": count})
        for name, data in session.files.items():
            item(out, known, "file", name, data, {"mode": 0o644, "mtime_ns": 0})
        frame(out, END, {"part": "files", "items": len(session.files)})
    if session.vanishes:
        SILENCE[session.names["OPEN"]["session"]] = session.vanishes
        sessions.pop(session.names["OPEN"]["session"])
    return send(2, ident, {"us": 1})


def load(ident: int, session: Session, fd: int, effort: int) -> None:
    """A variable "heavy" is too much for it; less effort leaves that out, or all variables."""
    failed: list[Json] = []
    parts = 0
    for path in LOADS:
        with open(f"{path}.begun", "w"):
            until(path)
    current: tuple[Json, bytes] | None = None

    def finish() -> None:
        if current and current[0]["kind"] == "vars" and (current[0]["name"] == "heavy" or effort == 2):
            failed.append({"name": current[0]["name"], "reason": "too heavy", "cause": "memory"})
        elif current and current[0]["kind"] == "vars":
            session.names.update({current[0]["name"]: pickle.loads(current[1])})
        elif current and current[0]["kind"] == "file":
            session.files[current[0]["name"]] = current[1]

    with open(fd, "rb") as source:
        while parts < 2:
            header = source.read(HEADER.size)
            if len(header) < HEADER.size:
                return send(3, ident, {"code": "peer", "message": "the checkpoint is torn"})
            body_len, _, head_len, kind = HEADER.unpack(header)
            body = source.read(body_len)
            head = json.loads(body[:head_len] or b"{}")
            if kind == DATA:
                assert current is not None
                current = (current[0], current[1] + body[head_len:])
                continue
            finish()
            current = (head, body[head_len:]) if kind == ITEM else None
            parts += kind == END
    if failed and effort == 0:
        return send(3, ident, {"code": "limit", "message": "the interpreter has ended"})
    return send(2, ident, {"failed": failed, "us": 1})


def handle(ident: int, head: Json, raw: bytes) -> None:
    method = head["method"]
    session = sessions.get(head.get("session", ""))
    if method == "open" and (head["env"] or {}).get("NEVER"):
        until(head["env"]["NEVER"])
        send(3, ident, {"code": "limit", "message": "no sandbox is left"})
    elif method == "open":
        sessions[head["session"]] = Session(head)
        send(2, ident, {"manifest": MANIFEST, "open_us": 1})
        stop = (head["env"] or {}).get("STOP")  # once: what follows the first answer to open stays unread
        if stop and not os.path.exists(stop):
            with open(stop, "w"):
                os.kill(os.getpid(), signal.SIGSTOP)
    elif method == "probe":
        send(2, ident, {"features": [{"name": "scripted", "ok": True, "detail": "yes", "cost": None,
                                      "fix": None}], "usable": True, **ABOUT})
    elif method == "output":
        text = b"full text"[head["offset"]: head["offset"] + head["length"]]
        send(2, ident, {"size": 9, "eof": head["offset"] + len(text) >= 9}, text)
    elif method == "forget":
        send(2, ident, {})
    elif session is None:
        until(SILENCE.get(head.get("session", ""), "/"))
        send(3, ident, {"code": "not_found", "message": "no such session in the tier"})
    elif method == "save":
        threading.Thread(target=save, args=(ident, session, set(raw.decode().split()), FDS.pop(0), head["branch"]),
                         daemon=True).start()
    elif method == "snapshot":
        branch(ident, session)
    elif method == "rollback":
        go_back(ident, session, head)
    elif method == "drop":
        session.branches.pop(head["branch"], None)
        send(2, ident, {})
    elif method == "memory":
        send(2, ident, {"bytes": session.bytes, "copies_bytes": session.each * len(session.branches),
                        "branches": sorted(session.branches)})
    elif method == "load":
        load(ident, session, FDS.pop(0), head.get("effort", 0))
    elif method == "exec":
        session.interrupted.clear()  # here, since an interrupt may come before its thread runs
        threading.Thread(target=run_cell, args=(ident, head, raw), daemon=True).start()
    elif method == "interrupt":
        session.interrupted.set()
        send(2, ident, {"interrupted": True})
    elif method == "close":
        del sessions[head["session"]]
        session.interrupted.set()
        threading.Thread(target=end, args=(ident, session), daemon=True).start()
    elif method == "put":
        old = b"" if head.get("truncate") else session.files.get(head["path"], b"")
        new = old[: head["offset"]] + raw + old[head["offset"] + len(raw):]
        session.files[head["path"]] = new
        send(2, ident, {"size": len(new)})
    elif method == "get" and head["path"] in session.files:
        data = session.files[head["path"]]
        part = data[head["offset"]: head["offset"] + head["length"]]
        send(2, ident, {"size": len(data), "mode": 0o640,
                        "eof": head["offset"] + len(part) >= len(data)}, part)
    elif method == "ls":
        entries = [{"name": name, "type": "file", "size": len(data), "mtime": 0}
                   for name, data in session.files.items()]
        send(2, ident, {"entries": entries, "truncated": False})
    else:
        send(3, ident, {"code": "not_found", "message": "no such file"})


while True:
    body_len, request, head_len, _ = HEADER.unpack(receive(HEADER.size))
    body = receive(body_len)
    handle(request, json.loads(body[:head_len]), body[head_len:])
