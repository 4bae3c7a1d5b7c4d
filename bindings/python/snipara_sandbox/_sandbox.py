# SPDX-License-Identifier: Apache-2.0
"""Sessions: Sandbox, whose methods wait, and AsyncSandbox, whose methods are awaited."""
from __future__ import annotations

import os
from binascii import hexlify
from collections import deque
from time import monotonic
from typing import (
    TYPE_CHECKING, Any, AsyncIterable, AsyncIterator, Callable, Deque, Dict, Generic, Iterable, Iterator, List, Mapping,
    Optional, Sequence, Tuple, Type, TypeVar, Union)

from ._completion import RLM, tell, tier_of
from ._errors import (
    InvalidArgument, NotFound, SandboxError, check_kinds, check_needed, in_arguments, names_nearest, nearest,
    wrong_kind)
from ._result import AsyncResult, Cell, Ended, Entry, Output, R, Result, Snapshot, make_result

if TYPE_CHECKING:
    from types import TracebackType
    from ._library import Call, Connection, Policy
    from .backends import BaseBackend
    from .core import SniparaSandboxConfig, StreamOptions
    from .repl import BaseREPL
    from .tools import Tool

T = TypeVar("T")
S = TypeVar("S", bound="Session[Any]")
Compared = Union[str, Snapshot, "Session[Any]", None]
OnOutput = Optional[Callable[[Output], object]]
Code = Union[str, bytes]
Path = Union[str, "os.PathLike[str]"]
FILE_MOST = 1 << 30
PART_MOST = 1 << 20  # bytes of stored output in one answer
WAIT_S = 1  # of one request to a process: Ctrl-C takes effect after it
NAMES_SHOWN = 8  # newest first
SESSION_LIMITS = ("cpus", "file_size", "open_files", "output", "processes", "tmp_size", "workspace_files",
                  "workspace_size")
LIMITS = (*SESSION_LIMITS, "memory", "timeout")
IMAGE = "python:3.11-slim"  # the default of docker_image
STOOD_IN_FOR = ("docker", "wasm")  # environments with a substitute if there is no such tier


class Ask(Generic[T]):
    """A request: how to start it, how to read its answer, and how to undo it if the answer has no recipient."""

    def __init__(self, begin: Callable[[Connection], Call], read: Callable[[Call], T],
                 undo: Optional[Callable[[Call], object]] = None) -> None:
        self.begin = begin
        self.read = read
        self.undo = undo

    def lose(self, call: Call) -> None:
        """Handle Ctrl-C or a cancelled task before the answer."""
        if self.undo is not None and call.is_done:
            try:
                self.undo(call)
            except SandboxError:
                pass  # the request failed, so there is nothing to undo


def _nothing(call: Call) -> None:
    call.check()


def _check_limits(names: Iterable[str]) -> None:
    for name in names:
        if name not in LIMITS:
            raise InvalidArgument("limits: there is no limit {!r}{}".format(name, nearest(str(name), LIMITS)))


def _limit_texts(limits: Mapping[str, object]) -> List[str]:
    return ["{}={}".format(key, value) for key, value in limits.items()]


def _bytes_of(data: Union[str, bytes, bytearray, memoryview], name: str) -> bytes:
    try:
        return data.encode() if isinstance(data, str) else bytes(memoryview(data))
    except TypeError:
        error = wrong_kind(name, "text or bytes", data)
        raise TypeError("{}; @sandboxed runs functions".format(error)) if callable(data) else error from None


def _name_of(path: Path) -> bytes:
    from ._library import text
    name = os.fspath(path) if isinstance(path, os.PathLike) else path
    check_needed(path=name)
    return text(name, "path") or b""


class Session(RLM, Generic[R]):
    """Base of Sandbox and AsyncSandbox: a session's name and options, and its requests."""

    _makes: Type[R]
    """Kind of its results."""

    def __init__(self, name: Optional[str] = None, *, timeout: Optional[float] = None,
                 memory: Union[str, int, None] = None, template: Optional[str] = None,
                 project: Union[str, os.PathLike[str], None] = None, env: Optional[Mapping[str, str]] = None,
                 tier: Optional[str] = None, limits: Optional[Mapping[str, object]] = None,
                 allow_degraded: bool = False, require_exact: bool = False,
                 backend: Union[str, BaseBackend, None] = None, model: Optional[str] = None,
                 environment: Union[str, BaseREPL, None] = None, max_depth: Optional[int] = None,
                 max_subcalls: Optional[int] = None, token_budget: Optional[int] = None,
                 config: Union[SniparaSandboxConfig, str, os.PathLike[str], None] = None,
                 tools: Optional[Iterable[Tool]] = None, verbose: Optional[bool] = None, **settings: Any) -> None:
        """A session, opened at its first use; and the settings of runs, as for completion().

        name: 1 to 64 characters of A-Z a-z 0-9 . _ -; opens or makes the session of that name, which stays afterwards.
        Without a name: a new session, destroyed by close(), at the end of `with`, or when this object or the program
        ends. timeout: seconds of one cell. memory: "512m" or bytes. template: "base", "data", "plot", or an added one.
        project: a folder shown at /workspace, never written to. env: variables for the code. tier: "native", "local",
        "auto"; None: the strongest of this host. limits: other limits by name, as in {"cpus": 2, "workspace_size":
        "2g"}. allow_degraded: run without a control that this host lacks. require_exact: refuse if one is approximate.
        All of these except name and env also apply to the session of a run.

        Runs: backend: "litellm" (the provider by the model's name), "openai", "anthropic"... environment: as tier, and
        "docker". max_depth: turns of the model. max_subcalls: its calls. token_budget: tokens of both directions.
        config: a SniparaSandboxConfig, or the path of a file. tools: functions of this program for the model. verbose:
        print the progress of runs on stderr, and give results their events. settings: other keys of
        docs/reference/configuration.md, such as timeout_seconds (of a run), temperature, cost_limit, log_dir;
        guarantees, as in ["network", "kernel"], also apply to this session.
        The constructor sends no request to the daemon: errors come from the first method. TypeError: unknown argument.
        """
        check_kinds(name=name, env=env, limits=limits)
        for variable, content in (env or {}).items():
            check_needed(**{"env[{!r}]".format(variable): content})
            if not isinstance(variable, str) or variable == "" or "=" in variable:
                raise InvalidArgument("env: {!r} is not a valid variable name".format(variable))
        super().__init__(backend, model, environment, config, tools, verbose, max_depth=max_depth,
                         max_subcalls=max_subcalls, token_budget=token_budget, **settings)
        given = self._given
        _check_limits(limits or ())
        if tier is not None and given.get("environment", tier) != tier:
            raise InvalidArgument("tier={!r} and environment={!r} contradict each other; give one of them".format(
                tier, given["environment"]))
        chosen: Dict[str, object] = {key: given[key] for key in SESSION_LIMITS if key in given}
        chosen.update(limits or {})
        chosen.update((key, value) for key, value in (
            ("timeout", given.get("docker_timeout") if timeout is None else timeout),
            ("memory", given.get("docker_memory") if memory is None else memory)) if value is not None)
        if "docker_cpus" in given:
            chosen.setdefault("cpus", given["docker_cpus"])
        self.name: str = name if name is not None else "py-" + hexlify(os.urandom(6)).decode()
        """Name of the session."""
        self.is_kept: bool = name is not None
        """Whether the session stays when this object is closed."""
        wanted = given.get("guarantees") or ()
        self._options: Dict[str, Any] = {
            "tier": tier if tier is not None else given.get("environment"), "template": template,
            "project": None if project is None else os.fspath(project),
            "limits": _limit_texts(chosen), "env": dict(env or {}),
            "allow_degraded": allow_degraded, "require_exact": require_exact,
            "guarantees": [word.strip() for word in wanted.split(",")] if isinstance(wanted, str) else list(wanted)}
        self._policy: Optional[Policy] = None
        self._is_open = self._is_closed = False
        self._has_policy = True  # false: a fork, which has its parent's options
        self._at_end: Any = None

    def _session_settings(self) -> Dict[str, Any]:
        options = self._options
        if options["env"]:
            tell("env= applies to the cells of this session, not to code of runs")
        given = {"environment": options["tier"], "template": options["template"], "project": options["project"],
                 "allow_degraded": options["allow_degraded"] or None, "require_exact": options["require_exact"] or None}
        given.update(limit.split("=", 1) for limit in options["limits"])
        return {name: value for name, value in given.items() if value is not None}

    def _adopt(self, other: Session[Any]) -> None:
        """Take over the session of another object."""
        self._as(other)
        self.name, self.is_kept, self._options = other.name, other.is_kept, other._options
        self._is_open, self._has_policy = other._is_open, other._has_policy

    def _own(self, fork_name: str, is_kept: bool) -> None:
        """Take over a session made by fork()."""
        self.name, self.is_kept, self._is_open, self._has_policy = fork_name, is_kept, True, False
        self._begun()

    @property
    def _key(self) -> bytes:
        from ._library import text
        return text(self.name, "name") or b""

    def _made_with(self) -> Optional[Policy]:
        if self._policy is None and self._has_policy:
            from ._library import Policy
            options = self._options
            if options["tier"] in STOOD_IN_FOR:
                if options["tier"] != "docker" or not self.is_kept:  # else the daemon reports why
                    options = {**options, "tier": tier_of(options["tier"])}
                if options["tier"] == "docker":
                    options = {**options, **self._in_docker()}
                else:
                    tell("no {} tier here; code runs in {}".format(self._options["tier"], options["tier"]))
            self._policy = Policy(**options, temporary=not self.is_kept)
        return self._policy

    def _in_docker(self) -> Dict[str, Any]:
        """The options docker_... as options of the session."""
        given = self._given
        found: Dict[str, Any] = {}
        if given.get("docker_workspace_setup", "none") != "none":
            tell("docker_workspace_setup= builds images for runs; cells of this session run in docker_image= unchanged")
        if "docker_image" in given or "docker_runtime" in given:
            image, runtime = given.get("docker_image", IMAGE), given.get("docker_runtime", "")
            found["rootfs"] = "{}#{}".format(image, runtime).rstrip("#")
        if self._options["project"] is None and given.get("docker_mount_workspace", "docker_workspace_path" in given):
            found["project"] = os.fspath(given.get("docker_workspace_path", "."))
        disabled = given.get("docker_network_disabled")
        if disabled:  # as a guarantee, so that a session with a network is refused
            found["guarantees"] = [*self._options["guarantees"], "network"]
        return {**found, "network": disabled is False}

    def _begun(self) -> None:
        """From now on the session may exist, so make sure that it is destroyed."""
        self._check()
        if self._at_end is None and not self.is_kept:
            from weakref import finalize
            self._at_end = finalize(self, _destroy_at_end, self.name, os.getpid())

    def _needs_destroy(self) -> bool:
        """Whether closing destroys the session; true once. A forked child leaves its parent's session alone."""
        finalizer, self._at_end = self._at_end, None
        kept = finalizer.detach() if finalizer is not None else None
        return kept is not None and bool(kept[2][1] == os.getpid())

    # What can be asked

    def _ask_run(self, code: Code, shell: bool = False, timeout: Optional[float] = None,
                 input: Union[str, bytes, None] = None, atomic: bool = False, recover: Optional[str] = None,
                 on_output: OnOutput = None, internal: bool = False) -> Ask[R]:
        given = _bytes_of(code, "line" if shell else "code")
        if shell and b"\0" in given:
            raise InvalidArgument("a shell line must not contain a NUL character")
        return self._ask_cell(given, shell, timeout, input, atomic, recover, on_output, internal)

    def _ask_cell(self, code: Optional[bytes], shell: bool = False, timeout: Optional[float] = None,
                  input: Union[str, bytes, None] = None, atomic: bool = False, recover: Optional[str] = None,
                  on_output: OnOutput = None, internal: bool = False) -> Ask[R]:
        """internal: code of this package, which history() leaves out."""
        stdin = None if input is None else _bytes_of(input, "input")
        check_kinds(timeout=timeout, recover=recover)
        if timeout is not None and not 0 < timeout < float("inf"):
            raise InvalidArgument("timeout must be more than 0 seconds, and finite")

        def begin(box: Connection) -> Call:
            from ._library import text
            self._begun()
            return box.run(self._key, self._made_with(), code, shell=shell, input=stdin,
                           timeout_ms=0 if timeout is None else max(1, round(timeout * 1000)), atomic=atomic,
                           recover=text(recover, "recover"), on_output=on_output, internal=internal)

        def read(call: Call) -> R:
            result = make_result(self._makes, call.answer(), call.printed, call.shown)
            self._is_open = True
            self._tell_unsaved(result.raw)
            for row in result.raw.get("not_applied", ()):
                tell("session {} keeps its {} {}; DOCKER_HOST ({}) applies to new sessions".format(
                    self.name, row["setting"], row["session"], row["asked"]))
            return result
        return Ask(begin, read)

    def _tell_unsaved(self, answer: Mapping[str, Any]) -> None:
        row = answer.get("unsaved")
        if row:
            tell("session {}: {}".format(self.name, row["text"]))

    def _ask_get(self, expression: str, trust: bool) -> Ask[Any]:
        from ._values import Exchange
        check_needed(expression=expression)
        exchange = Exchange(trust)
        run = self._ask_run(exchange.getting(expression), internal=True)
        return Ask(run.begin, lambda call: exchange.sent(run.read(call)))

    def _ask_set(self, name: str, value: object) -> Ask[None]:
        from keyword import iskeyword
        check_needed(name=name)
        if not name.isidentifier() or iskeyword(name):
            raise InvalidArgument("{!r} is not a valid variable name".format(name))
        return self._ask_given(value, "{} = _given\n".format(name))

    def _ask_given(self, value: object, use: str) -> Ask[None]:
        """use: code that uses the value in _given."""
        from ._values import Exchange
        exchange = Exchange()
        run = self._ask_run(exchange.giving(value) + use + "del _given\n", input=exchange.input, internal=True)
        return Ask(run.begin, lambda call: exchange.check(run.read(call)))

    def _ask_name(self, function: str, read: Callable[[Call], T]) -> Ask[T]:
        return Ask(lambda box: box.ask(function, self._key), read)

    def _ask_limits(self, limits: Mapping[str, object]) -> Ask[List[str]]:
        from ._library import texts
        _check_limits(limits)

        def read(call: Call) -> List[str]:
            answer = call.answer()
            later: List[str] = answer["at_wake"]
            if answer.get("untried"):
                tell("session {}: not tested whether its data fit the lowered limits ({})".format(
                    self.name, answer["untried"]))
            given = dict(limit.split("=", 1) for limit in self._options["limits"])  # sent again with each cell
            self._options["limits"] = _limit_texts({key: limits.get(key, value) for key, value in given.items()})
            self._policy = None
            return later
        return Ask(lambda box: box.ask("set_limits", self._key, texts(_limit_texts(limits), "limits")), read)

    def _ask_show(self) -> Ask[None]:
        return Ask(lambda box: box.request("sessions.show", session=self.name), _nothing)

    def _ask_open(self) -> Ask[R]:
        return self._ask_cell(None)

    def _ask_read(self, path: Path, most: int) -> Ask[bytes]:
        from ctypes import c_size_t
        name = _name_of(path)
        check_needed(most=most)
        return Ask(lambda box: box.ask("get", self._key, name, c_size_t(most)), lambda call: call.data())

    def _ask_write(self, path: Path, data: Union[str, bytes, bytearray, memoryview], mode: int) -> Ask[None]:
        from ctypes import c_size_t
        name, given = _name_of(path), _bytes_of(data, "data")
        check_needed(mode=mode)
        return Ask(lambda box: box.ask("put", self._key, name, given, c_size_t(len(given)), mode),
                   lambda call: self._tell_unsaved(call.answer()))

    def _ask_list(self, path: Path) -> Ask[List[Entry]]:
        name = _name_of(path)
        return Ask(lambda box: box.ask("list", self._key, name),
                   lambda call: [Entry(*(row.get(name) for name in Entry._fields)) for row in call.answer()["entries"]])

    def _ask_snapshot(self, name: Optional[str]) -> Ask[Snapshot]:
        from ._library import text

        def read(call: Call) -> Snapshot:
            answer = call.answer()
            return Snapshot(answer["name"], answer["snapshot"], answer["cell"])
        return Ask(lambda box: box.ask("snapshot", self._key, text(name, "name")), read)

    def _ask_rollback(self, snapshot: Union[str, Snapshot]) -> Ask[None]:
        from ._library import text
        check_needed(snapshot=snapshot)
        name = snapshot.id if isinstance(snapshot, Snapshot) else snapshot
        full = name if isinstance(snapshot, Snapshot) or "@" in name else self.name + "@" + name
        return Ask(lambda box: box.ask("rollback", self._key, text(full, "snapshot")), _nothing)

    def _ask_snapshots(self) -> Ask[List[Snapshot]]:
        return self._ask_name("snapshots", lambda call: [
            Snapshot(row["name"], row["id"], row["cell"]) for row in call.answer()["snapshots"]])

    def _ask_fork(self: S, n: int, name: Optional[str]) -> Ask[Tuple[S, ...]]:
        check_needed(n=n)

        def names(call: Call) -> List[str]:
            return [row["name"] for row in call.answer()["sessions"]]

        def read(call: Call) -> Tuple[S, ...]:
            made = tuple(type(self)() for _ in range(n))
            for one, fork_name in zip(made, names(call)):
                one._as(self)
                one._own(fork_name, name is not None)
            return made

        def undo(call: Call) -> None:
            for fork_name in names(call):
                _destroy_at_end(fork_name, os.getpid())
        return Ask(lambda box: box.request("fork", **{"from": self.name}, n=n, name=name, temporary=name is None),
                   read, undo if name is None else None)

    def _reference(self, name: str, to: Union[str, Snapshot, Session[Any]]) -> str:
        """The name of a snapshot, or of a session in its current state, for a command."""
        if isinstance(to, (Snapshot, Session)):
            return to.id if isinstance(to, Snapshot) else to.name
        if not isinstance(to, str):
            raise wrong_kind(name, "a name, a Snapshot or a sandbox", to)
        return to if "@" in to else self.name + "@" + to

    def _ask_diff(self, a: Compared, b: Compared) -> Ask[Dict[str, Any]]:
        if a is None and b is None:
            return _ask_command("diff", "--project", "--", self.name)
        if a is None:
            raise InvalidArgument("give a, too: diff(a, b)")
        return _ask_command("diff", "--", self._reference("a", a), self._reference("b", self if b is None else b))

    def _ask_export(self, path: Path, snapshot: Union[str, Snapshot, None], force: bool) -> Ask[Dict[str, Any]]:
        source = self.name if snapshot is None else self._reference("snapshot", snapshot)
        return _ask_command("export", *(["--force"] if force else []), "--", _file_of(path), source)

    @classmethod
    def _ask_import(cls: Type[S], path: Path, name: Optional[str], tier: Optional[str],
                    limits: Mapping[str, object], allow_degraded: bool, require_exact: bool) -> Ask[S]:
        check_kinds(name=name, tier=tier, limits=limits)
        _check_limits(limits)
        options: Dict[str, object] = {"name": name, "env": tier, **limits}
        words = ["--{}={}".format(key.replace("_", "-"), value) for key, value in options.items() if value is not None]
        words += ["--allow-degraded"] * allow_degraded + ["--require-exact"] * require_exact
        made = _ask_command("import", *words, "--", _file_of(path))

        def read(call: Call) -> S:
            answer = made.read(call)
            for note in answer["notes"] + answer.get("warnings", []):
                tell(note)
            for rows, what in ((answer["lost"], "was not in the file"), (answer["failed"], "could not be restored")):
                for row in rows:
                    tell("{} {}: {}".format(row["name"], what, row["reason"]))
            one = cls()
            one._own(answer["name"], True)
            return one
        return Ask(made.begin, read)

    def _ask_apply(self, paths: Iterable[Path], flags: Mapping[str, bool],
                   allow: Union[str, Iterable[str]]) -> Ask[Dict[str, Any]]:
        words = ["--" + name for name, is_given in flags.items() if is_given]
        words += ["--allow=" + path for path in ([allow] if isinstance(allow, str) else allow)]
        return _ask_command("apply", "--yes", *words, "--", self.name, *(os.fspath(path) for path in paths))

    def _ask_history(self, limit: int) -> Ask[List[Cell]]:
        from ctypes import c_int64
        check_needed(limit=limit)

        def read(call: Call) -> List[Cell]:
            rows = call.answer()["cells"]
            return [Cell._make([row["cell"], *(row.get(name) for name in Cell._fields[1:-1]), row.get("displays", 0)])
                    for row in rows]
        return Ask(lambda box: box.ask("history", self._key, c_int64(0), limit), read)

    def _ask_result(self, cell: int) -> Ask[R]:
        check_needed(cell=cell)

        def read(call: Call) -> R:
            result = call.answer()["result"]
            if result is None:
                raise NotFound("cell {} has no result: it is running, or the result was removed to save disk space"
                               .format(cell))
            return make_result(self._makes, result, call.printed, call.shown)
        return Ask(lambda box: box.show(self._key, cell), read)

    def _ask_start(self, command: Union[str, Sequence[str]], open_input: bool) -> Ask[Tuple[int, List[str]]]:
        """The number and the words of a new process."""
        words = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)

        def begin(box: Connection) -> Call:
            self._begun()
            return box.start(self._key, self._made_with(), words, open_input)

        def read(call: Call) -> Tuple[int, List[str]]:
            result = make_result(self._makes, call.answer(), call.printed, call.shown)
            self._is_open = True
            result.raise_for_error()
            return result.cell, words
        return Ask(begin, read)

    def _ask_processes(self) -> Ask[List[Tuple[int, List[str]]]]:
        return self._ask_name("processes", lambda call: [
            (row["process"], row["argv"]) for row in call.answer()["processes"]])

    def _ask_interrupt(self) -> Ask[bool]:
        return Ask(lambda box: box.request("interrupt", session=self.name),
                   lambda call: bool(call.answer()["interrupted"]))

    def _check(self) -> None:
        if self._is_closed:
            raise InvalidArgument("this sandbox was closed; make another one")

    def _may_exist(self) -> bool:
        return self._is_open or self.is_kept or self._at_end is not None

    def _is_new(self) -> bool:
        """Whether the session certainly does not exist yet."""
        self._check()
        return not self._may_exist()

    def __repr__(self) -> str:
        return "<{} {}>".format(type(self).__name__, self.name)


class ProcessBase:
    """A process of a session, and what has been read of it."""

    def __init__(self, sandbox: Session[Any], number: int, argv: Sequence[str] = ()) -> None:
        from codecs import getincrementaldecoder
        self._sandbox = sandbox
        self.number = number
        """Number of the cell that started it."""
        self.argv = list(argv)
        """Its program and arguments."""
        self._at = {"stdout": 0, "stderr": 0}
        self._decoders = {name: getincrementaldecoder("utf-8")("replace") for name in self._at}
        self._is_read = False  # to its end
        self._pieces: Deque[Output] = deque()

    def _ask(self, function: str, read: Callable[[Call], T], *arguments: Any) -> Ask[T]:
        from ctypes import c_int64
        return Ask(lambda box: box.ask(function, self._sandbox._key, c_int64(self.number), *arguments), read)

    def _ask_read(self, wait: float) -> Ask[List[Output]]:
        from ctypes import c_int64

        def read(call: Call) -> List[Output]:
            answer, data, pieces = call.answer(), call.data(), []
            self._is_read = answer["eof"]
            for name, part in (("stdout", data[:answer["stdout_len"]]), ("stderr", data[answer["stdout_len"]:])):
                self._at[name] = answer[name] + len(part)
                text = self._decoders[name].decode(part, self._is_read)
                if text:
                    pieces.append(Output.of(name, text))
            return pieces
        return self._ask("process_read", read, c_int64(self._at["stdout"]), c_int64(self._at["stderr"]),
                         round(min(wait, WAIT_S) * 1000))

    def _ask_write(self, data: bytes, close: bool) -> Ask[int]:
        from ctypes import c_bool, c_size_t
        return self._ask("process_write", lambda call: int(call.answer()["written"]), data, c_size_t(len(data)),
                         c_bool(close))

    def _ask_wait(self, wait: float) -> Ask[Optional[Ended]]:
        def read(call: Call) -> Optional[Ended]:
            answer = call.answer()
            return None if answer["state"] == "running" else Ended(answer["exit_code"], answer["signal"])
        return self._ask("process_wait", read, round(min(wait, WAIT_S) * 1000))

    def _ask_signal(self, name: Union[str, int]) -> Ask[bool]:
        from signal import Signals
        try:
            number = int(name if isinstance(name, int) else Signals["SIG" + name.upper().replace("SIG", "", 1)])
        except KeyError:
            raise InvalidArgument("there is no signal {!r}".format(name)) from None
        return self._ask("process_signal", lambda call: bool(call.answer()["sent"]), number)

    def __repr__(self) -> str:
        return "<{} {}:{}>".format(type(self).__name__, self._sandbox.name, self.number)


def _ask_sessions() -> Ask[List[Dict[str, Any]]]:
    def read(call: Call) -> List[Dict[str, Any]]:
        rows: List[Dict[str, Any]] = call.answer()["sessions"]
        return rows
    return Ask(lambda box: box.ask("sessions"), read)


def _file_of(path: Path) -> str:
    """The absolute path of a file of this program."""
    check_needed(path=path if isinstance(path, str) else os.fspath(path))
    return os.path.abspath(path)


def _ask_command(*words: str) -> Ask[Dict[str, Any]]:
    """Run a command of the command line and return its output with --json."""
    from ._library import texts

    def read(call: Call) -> Dict[str, Any]:
        try:
            return call.answer()
        except SandboxError as error:
            raise in_arguments(error)
    return Ask(lambda box: box.ask("command", texts(words, "path")), read)


def _ask_output(handle: str, stream: str, offset: int) -> Ask[Tuple[bytes, bool]]:
    """A part of the stored output of a cell, and whether it is the last part."""
    def read(call: Call) -> Tuple[bytes, bool]:
        answer, part = call.answer(), call.data()
        is_last = bool(answer["eof"]) or not part
        if is_last and answer.get("truncated"):
            tell("the rest of {} was not stored (limit 64 MiB a stream, if the disk of the state folder has "
                 "room)".format(stream))
        return part, is_last
    return Ask(lambda box: box.request("output", handle=handle, stream=stream, offset=offset, length=PART_MOST), read)


def _with_names(error: NotFound, snapshots: List[Snapshot]) -> NotFound:
    """Add the existing names to the error for a missing snapshot."""
    names = ", ".join(snapshot.name for snapshot in snapshots[-NAMES_SHOWN:])
    error.args = ("{}; the session has {}".format(error.args[0], names or "no snapshot"),)
    return error


def _do(ask: Ask[T]) -> T:
    """Start a request, and wait for the answer."""
    from ._library import Held, connection
    call = None
    try:
        with Held():
            call = ask.begin(connection())
        call.wait()
        return ask.read(call)
    except BaseException:
        if call is not None:
            if not call.is_done:
                call.stop()
            ask.lose(call)
        raise
    finally:
        if call is not None:
            call.free()


def _destroy_at_end(name: str, pid: int) -> None:
    """Destroy a session that was not closed."""
    if pid == os.getpid():
        from ._library import Held
        try:
            with Held(is_final=True):
                _do(Ask(lambda box: box.ask("destroy", name.encode()), _nothing))
        except SandboxError:
            pass  # the session or the daemon has already ended


# Waiting ------------------------------------------------------------------------------------


@names_nearest
class Files:
    """Files of a session. Paths are below /workspace: "data/a.csv"."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def read(self, path: Path, *, most: int = FILE_MOST) -> bytes:
        """Read a whole file. most: bytes. NotFound: no such file; LimitReached: it is larger."""
        return self._sandbox._opened(self._sandbox._ask_read(path, most))

    def read_text(self, path: Path, *, encoding: str = "utf-8", most: int = FILE_MOST) -> str:
        """Read a file as text; UnicodeDecodeError: it is not UTF-8."""
        return self.read(path, most=most).decode(encoding)

    def write(self, path: Path, data: Union[str, bytes, bytearray, memoryview], *, mode: int = 0o644) -> None:
        """Write a whole file; text as UTF-8. A path that ends in "/" makes a folder. LimitReached: no room."""
        self._sandbox._opened(self._sandbox._ask_write(path, data, mode))

    def list(self, path: Path = ".") -> List[Entry]:
        """List a folder. NotFound: no such folder."""
        return self._sandbox._opened(self._sandbox._ask_list(path))


@names_nearest
class Process(ProcessBase, Iterator[Output]):
    """A command that runs beside the cells of its session, until it exits or the session's sandbox ends.

    `for piece in process` reads its output until it ends; piece.stream is "stdout" or "stderr".
    """

    def read(self, wait: float = 0) -> List[Output]:
        """Return the output since the last read, oldest first. wait: seconds, if there is none yet. Of each stream the
        last bytes are stored, at most 256 KiB."""
        end = monotonic() + wait
        while True:
            pieces = _do(self._ask_read(max(end - monotonic(), 0)))
            if pieces or self._is_read or monotonic() >= end:
                return pieces

    def __next__(self) -> Output:
        while not self._pieces and not self._is_read:
            self._pieces.extend(self.read(WAIT_S))
        if self._pieces:
            return self._pieces.popleft()
        raise StopIteration

    def write(self, data: Union[str, bytes, bytearray, memoryview], *, close: bool = False) -> None:
        """Write to standard input; waits while the process does not read. It needs start(..., open_input=True).

        close: then close it. NotFound: the process has ended, or has closed its standard input.
        """
        rest = _bytes_of(data, "data")
        while True:
            rest = rest[_do(self._ask_write(rest, close)):]
            if not rest:
                return

    def close(self) -> None:
        """Close standard input."""
        self.write(b"", close=True)

    def wait(self, timeout: Optional[float] = None) -> Optional[Ended]:
        """Wait for its end. None: it still runs after timeout seconds."""
        end = None if timeout is None else monotonic() + timeout
        while True:
            ended = _do(self._ask_wait(WAIT_S if end is None else max(end - monotonic(), 0)))
            if ended is not None or (end is not None and monotonic() >= end):
                return ended

    def signal(self, name: Union[str, int] = "TERM") -> bool:
        """Send a signal to its process group. False: it had ended."""
        return _do(self._ask_signal(name))


class Stream(Iterator[Output], AsyncIterable[str]):
    """The output of a cell as it arrives, then its value if it has one: Output.stream tells them apart. Ends with the
    cell; then .result has the rest. Leaving the loop ends the cell.

    With `async for` it is a model's text for a prompt: see Sandbox.stream().
    """

    def __init__(self, make: Callable[[Callable[[Output], None]], Ask[Result]],
                 chunks: Callable[[], AsyncIterator[str]]) -> None:
        self._pieces: Deque[Output] = deque()
        self._result: Optional[Result] = None
        self._ask: Optional[Ask[Result]] = None
        self._make, self._chunks = make, chunks
        self._call: Optional[Call] = None

    def __aiter__(self) -> AsyncIterator[str]:
        return self._chunks()

    @property
    def result(self) -> Result:
        """The result of the cell; waits for its end."""
        for _ in self:
            pass
        assert self._result is not None
        return self._result

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Output:
        if self._ask is None:
            from ._library import Held, connection
            self._ask = self._make(self._pieces.append)
            with Held():
                self._call = self._ask.begin(connection())
        call = self._call
        if not self._pieces and call is not None:
            from select import POLLIN, poll
            from ._library import SLICE_MS, Signals
            ready = poll()
            ready.register(call.box.fd, POLLIN)
            try:
                with Signals(call.box) as signals:
                    while not self._pieces and not call.is_done:
                        ready.poll(SLICE_MS)
                        call.box.step()
                        signals.check()
            except BaseException:
                call.stop()
                self._free()
                raise
        if self._pieces:
            return self._pieces.popleft()
        if call is not None:
            try:
                self._result = self._ask.read(call)
            finally:
                self._free()
            if self._result.value is not None:
                return Output.of("value", self._result.value)
        raise StopIteration

    def _free(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call.free()

    def close(self) -> None:
        """End the cell if it runs: status "interrupted". To be called in the thread that started it."""
        if self._call is not None:
            self._call.stop()
            self._free()

    def __del__(self) -> None:
        call = getattr(self, "_call", None)
        if call is not None:
            call.drop()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@names_nearest
class Sandbox(Session[Result]):
    """A session, in which code runs contained; methods wait for results. It can also run models: see completion().

        with Sandbox() as s:
            s.run("6 * 7").value    # "42"

    Threads may share it: each has its own connection, and cells of a session run one after the other. `async with
    Sandbox() as s` gives an AsyncSandbox. Every method may raise SandboxError. SandboxLost: the daemon ended; the next
    call restores the session. Ctrl-C ends the cell with KeyboardInterrupt, and the session continues.
    """

    _makes = Result

    @property
    def files(self) -> Files:
        """Its files."""
        return Files(self)

    def _opened(self, ask: Ask[T]) -> T:
        """Start a request that needs a session, which is opened first."""
        if not self._is_open:
            try:
                if self._is_new():
                    raise NotFound(self.name)
                _do(self._ask_show())
            except NotFound:
                _do(self._ask_open()).raise_for_error()
            self._is_open = True
        return _do(ask)

    def run(self, code: Code, *, timeout: Optional[float] = None, input: Union[str, bytes, None] = None,
            on_output: OnOutput = None, atomic: bool = False, recover: Optional[str] = None) -> Result:
        """Run Python code. Failing code does not raise: see Result.ok and Result.raise_for_error().

        timeout: seconds; None: the session's. input: standard input. on_output: called with each piece of output; if it
        raises, the cell ends. atomic: undo the cell's effects if it fails. recover: how to handle cells lost in a
        crash: "replay", "skip" or "checkpoint"; None fails with Denied and names them.
        """
        return _do(self._ask_run(code, False, timeout, input, atomic, recover, on_output))

    def sh(self, line: str, *, timeout: Optional[float] = None, input: Union[str, bytes, None] = None,
           on_output: OnOutput = None, atomic: bool = False, recover: Optional[str] = None) -> Result:
        """Run a /bin/sh line. Arguments as in run()."""
        return _do(self._ask_run(line, True, timeout, input, atomic, recover, on_output))

    def stream(self, code: Code = "", system: Optional[str] = None,  # type: ignore[override]
               options: Optional[StreamOptions] = None, *, prompt: Optional[str] = None,
               timeout: Optional[float] = None, input: Union[str, bytes, None] = None, atomic: bool = False,
               recover: Optional[str] = None) -> Stream:
        """Run Python code, and read its output as it arrives, then its value: `for piece in s.stream(code)`; .stream of
        a piece is "stdout", "stderr" or "value". Arguments as in run().

        `async for chunk in s.stream(prompt, system, options)`, from earlier releases, is different: a model's text in a
        run on that prompt, as in completion(). It raises at the end if the run is not finished.
        """
        def make(take: Callable[[Output], None]) -> Ask[Result]:
            if (system, options, prompt) != (None, None, None):
                raise InvalidArgument("a prompt is streamed with `async for`; `for` runs code, and takes no system=, "
                                      "options= or prompt=")
            return self._ask_run(code, False, timeout, input, atomic, recover, take)

        def chunks() -> AsyncIterator[str]:
            if (timeout, input, recover, atomic) != (None, None, None, False):
                raise InvalidArgument("code is streamed with `for`, or in an AsyncSandbox; `async for` asks a model")
            text = code if prompt is None else prompt
            return self._chunks(text.decode() if isinstance(text, bytes) else text, system, options)
        return Stream(make, chunks)

    def get(self, expression: str, *, trust: bool = False) -> Any:
        """Get a variable, or any expression, as a Python object: JSON values, bytes, and, if this program has the
        module, numpy arrays, and DataFrame and Series of pandas. Without the module they are lists, and dicts of lists.

        trust: the value is pickled, which lets code in the sandbox run anything in this program: only for code that you
        would run without a sandbox. CellFailed: no such variable, or it cannot be passed.
        """
        return _do(self._ask_get(expression, trust))

    def set(self, name: str, value: object) -> None:
        """Set a variable by value; accepts what get() returns. TypeError: the value cannot be passed."""
        _do(self._ask_set(name, value))

    def start(self, command: Union[str, Sequence[str]], *, open_input: bool = False) -> Process:
        """Start a command that runs beside the cells: a /bin/sh line, or a list of words. It has no time limit, and
        ends with the session's sandbox.

        open_input: for Process.write(); without it standard input is empty.
        """
        return Process(self, *_do(self._ask_start(command, open_input)))

    def processes(self) -> List[Process]:
        """List the session's processes, running and ended; none if its sandbox has ended."""
        return [] if self._is_new() else [Process(self, *row) for row in _do(self._ask_processes())]

    def snapshot(self, name: Optional[str] = None) -> Snapshot:
        """Take a snapshot of variables and files. name: s1, s2... if not given."""
        return self._opened(self._ask_snapshot(name))

    def snapshots(self) -> List[Snapshot]:
        """List the session's snapshots, oldest first."""
        return [] if self._is_new() else _do(self._ask_snapshots())

    def rollback(self, snapshot: Union[str, Snapshot]) -> None:
        """Roll variables and files back to a snapshot of this session. NotFound lists the existing ones."""
        try:
            self._opened(self._ask_rollback(snapshot))
        except NotFound as error:
            raise _with_names(error, self.snapshots())

    def fork(self, n: int = 1, *, name: Optional[str] = None) -> Tuple[Sandbox, ...]:
        """Make n (1 to 64) sessions that continue from this one. name: prefix of their names; named ones are kept."""
        return self._opened(self._ask_fork(n, name))

    def diff(self, a: Compared = None, b: Compared = None) -> Dict[str, Any]:
        """Compare a with b. diff(): the changes that apply() would make in the session's project.

        a, b: a snapshot, or a sandbox in its current state; b: this sandbox if not given. Returns the output of
        `snipara-sandbox diff --json`: `files` (each with `unified`, or None if it is binary) and, except for a project,
        `variables`.
        """
        return self._opened(self._ask_diff(a, b))

    def export(self, path: Path, *, snapshot: Union[str, Snapshot, None] = None, force: bool = False) -> Dict[str, Any]:
        """Write the session, or a snapshot of it, to a file, for another machine. The file is not encrypted.

        Denied: the file exists; force: replace it. Returns `bytes`, `cell`, and `lost`, the items not saved.
        """
        return self._opened(self._ask_export(path, snapshot, force))

    @classmethod
    def import_(cls, path: Path, *, name: Optional[str] = None, tier: Optional[str] = None,
                limits: Optional[Mapping[str, object]] = None, allow_degraded: bool = False,
                require_exact: bool = False) -> Sandbox:
        """Make a session from a file written by export(). It stays, like one with a name.

        name: the name in the file if not given. limits: override those of the file, as in {"memory": "1g"}; the others
        are lowered to the limits configured for new sessions. Warnings list what differs from the file and what could
        not be restored.
        """
        return _do(cls._ask_import(path, name, tier, limits or {}, allow_degraded, require_exact))

    def apply(self, *paths: Path, unverified: bool = False, reviewed: bool = False,
              allow: Union[str, Iterable[str]] = (), project_moved: bool = False) -> Dict[str, Any]:
        """Apply the changes of diff() to the session's project, without asking. paths: only these files or folders.

        unverified: without a verdict of `snipara-sandbox verify`. reviewed: a person has read the patch, if its risk is
        high. allow: files that tools run automatically. project_moved: although the project changed after the session
        began. Denied: nothing was applied. Returns the output of `snipara-sandbox apply --json`; `applied` has the
        paths.
        """
        flags = {"unverified": unverified, "reviewed": reviewed, "project-moved": project_moved}
        return self._opened(self._ask_apply(paths, flags, allow))

    def history(self, limit: int = 50) -> List[Cell]:
        """List the session's cells, newest first. limit: at most 1000."""
        return [] if self._is_new() else _do(self._ask_history(limit))

    def result(self, cell: int) -> Result:
        """Get the result of an earlier cell, with its output and displays. NotFound: it has no result."""
        return self._opened(self._ask_result(cell))

    def interrupt(self) -> bool:
        """Interrupt the running cell, from another thread. True: there was one; its status will be "interrupted"."""
        return not self._is_new() and _do(self._ask_interrupt())

    def set_limits(self, **limits: object) -> List[str]:
        """Change limits of the session permanently: set_limits(memory="1g", timeout=60).

        Returns the names of limits that apply at the next wake; hibernate() ends the sandbox.
        """
        return self._opened(self._ask_limits(limits))

    def hibernate(self) -> None:
        """Save the session and end its sandbox; the next cell wakes it."""
        self._opened(self._ask_name("hibernate", _nothing))

    def destroy(self) -> None:
        """Destroy the session permanently, with its files and snapshots."""
        if self._may_exist():
            self._needs_destroy()
            _do(self._ask_name("destroy", _nothing))
            self._is_open = False

    @staticmethod
    def list() -> List[Dict[str, Any]]:
        """List all sessions of this user: dicts with `name`, `state`, `cells`... of docs/wire.md."""
        return _do(_ask_sessions())

    def close(self) -> None:
        """Destroy the session, unless a name was given. This object cannot run cells afterwards."""
        self._is_open, self._is_closed = False, True
        if self._needs_destroy():
            try:
                _do(self._ask_name("destroy", _nothing))
            except NotFound:
                pass

    def __enter__(self) -> Sandbox:
        self._check()
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        try:
            self.close()
        except SandboxError:
            if error is None:
                raise

    async def __aenter__(self) -> AsyncSandbox:
        self._check()
        self._twin = AsyncSandbox()
        self._twin._adopt(self)
        return self._twin

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        traceback: Optional[TracebackType]) -> None:
        self._is_open, self._is_closed = False, True
        await self._twin.__aexit__(kind, error, traceback)


# Awaiting -----------------------------------------------------------------------------------


async def _do_async(ask: Ask[T]) -> T:
    """Send a request, and await the answer. Cancelling interrupts the cell; the session continues."""
    from asyncio import get_running_loop
    from ._library import hear_signals, loop_connection
    loop = get_running_loop()
    box = loop_connection(loop)
    call = ask.begin(box)
    hear_signals(loop, call)
    done: Any = loop.create_future()
    box.when_done(call, lambda: done.done() or done.set_result(None))
    try:
        await done
    except BaseException:
        call.let_go(ask.lose)
        raise
    try:
        return ask.read(call)
    finally:
        call.free()


@names_nearest
class AsyncFiles:
    """Files of a session. Paths are below /workspace: "data/a.csv"."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._sandbox = sandbox

    async def read(self, path: Path, *, most: int = FILE_MOST) -> bytes:
        """Read a whole file. most: bytes. NotFound: no such file; LimitReached: it is larger."""
        return await self._sandbox._opened(self._sandbox._ask_read(path, most))

    async def read_text(self, path: Path, *, encoding: str = "utf-8", most: int = FILE_MOST) -> str:
        """Read a file as text; UnicodeDecodeError: it is not UTF-8."""
        return (await self.read(path, most=most)).decode(encoding)

    async def write(self, path: Path, data: Union[str, bytes, bytearray, memoryview], *, mode: int = 0o644) -> None:
        """Write a whole file; text as UTF-8. A path that ends in "/" makes a folder. LimitReached: no room."""
        await self._sandbox._opened(self._sandbox._ask_write(path, data, mode))

    async def list(self, path: Path = ".") -> List[Entry]:
        """List a folder. NotFound: no such folder."""
        return await self._sandbox._opened(self._sandbox._ask_list(path))


@names_nearest
class AsyncProcess(ProcessBase, AsyncIterator[Output]):
    """Like Process, with methods that are awaited: `async for piece in process`."""

    async def read(self, wait: float = 0) -> List[Output]:
        """Return the output since the last read, oldest first."""
        end = monotonic() + wait
        while True:
            pieces = await _do_async(self._ask_read(max(end - monotonic(), 0)))
            if pieces or self._is_read or monotonic() >= end:
                return pieces

    async def __anext__(self) -> Output:
        while not self._pieces and not self._is_read:
            self._pieces.extend(await self.read(WAIT_S))
        if self._pieces:
            return self._pieces.popleft()
        raise StopAsyncIteration

    async def write(self, data: Union[str, bytes, bytearray, memoryview], *, close: bool = False) -> None:
        """Write to standard input; waits while the process does not read."""
        rest = _bytes_of(data, "data")
        while True:
            rest = rest[await _do_async(self._ask_write(rest, close)):]
            if not rest:
                return

    async def close(self) -> None:
        """Close standard input."""
        await self.write(b"", close=True)

    async def wait(self, timeout: Optional[float] = None) -> Optional[Ended]:
        """Wait for its end. None: it still runs after timeout seconds."""
        end = None if timeout is None else monotonic() + timeout
        while True:
            ended = await _do_async(self._ask_wait(WAIT_S if end is None else max(end - monotonic(), 0)))
            if ended is not None or (end is not None and monotonic() >= end):
                return ended

    async def signal(self, name: Union[str, int] = "TERM") -> bool:
        """Send a signal to its process group. False: it had ended."""
        return await _do_async(self._ask_signal(name))


class AsyncStream(AsyncIterator[Output]):
    """The output of a cell as it arrives, and its value, like Stream; .result then has the rest. aclose() ends it."""

    def __init__(self, make: Callable[[Callable[[Output], None]], Ask[AsyncResult]]) -> None:
        self._ask = make(self._take)
        self._pieces: Deque[Output] = deque()
        self._result: Optional[AsyncResult] = None
        self._call: Optional[Call] = None
        self._is_begun = False
        self._waker: Any = None

    def _wake(self) -> None:
        if self._waker is not None and not self._waker.done():
            self._waker.set_result(None)

    def _take(self, piece: Output) -> None:
        self._pieces.append(piece)
        self._wake()

    @property
    def result(self) -> AsyncResult:
        """The result of the cell, after the end of the stream."""
        if self._result is None:
            raise InvalidArgument("the cell has not ended yet: read the stream to its end first")
        return self._result

    def __aiter__(self) -> AsyncStream:
        return self

    async def __anext__(self) -> Output:
        from asyncio import get_running_loop
        from ._library import hear_signals, loop_connection
        loop = get_running_loop()
        if not self._is_begun:
            self._is_begun = True
            box = loop_connection(loop)
            self._call = self._ask.begin(box)
            hear_signals(loop, self._call)
            box.when_done(self._call, self._wake)
        call = self._call
        while not self._pieces and call is not None and not call.is_done:
            self._waker = loop.create_future()
            try:
                await self._waker
            except BaseException:
                self._end()
                raise
        if self._pieces:
            return self._pieces.popleft()
        if call is not None:
            self._call = None
            try:
                self._result = self._ask.read(call)
            finally:
                call.free()
            if self._result.value is not None:
                return Output.of("value", self._result.value)
        raise StopAsyncIteration

    def _end(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call.let_go()

    def __del__(self) -> None:
        call = getattr(self, "_call", None)
        if call is not None:
            call.drop()

    async def aclose(self) -> None:
        """End the cell if it runs: status "interrupted"."""
        self._end()


@names_nearest
class AsyncSandbox(Session[AsyncResult]):
    """A session, in which code runs contained; methods are awaited. Their effects and exceptions are as in Sandbox.

        async with AsyncSandbox() as s:
            (await s.run("6 * 7")).value    # "42"

    The event loop watches the connections: there are no threads.
    """

    _makes = AsyncResult

    @property
    def files(self) -> AsyncFiles:
        """Its files."""
        return AsyncFiles(self)

    async def _opened(self, ask: Ask[T]) -> T:
        if not self._is_open:
            try:
                if self._is_new():
                    raise NotFound(self.name)
                await _do_async(self._ask_show())
            except NotFound:
                (await _do_async(self._ask_open())).raise_for_error()
            self._is_open = True
        return await _do_async(ask)

    async def run(self, code: Code, *, timeout: Optional[float] = None, input: Union[str, bytes, None] = None,
                  on_output: OnOutput = None, atomic: bool = False, recover: Optional[str] = None) -> AsyncResult:
        """Run Python code. If the task is cancelled, so is the cell."""
        return await _do_async(self._ask_run(code, False, timeout, input, atomic, recover, on_output))

    async def sh(self, line: str, *, timeout: Optional[float] = None, input: Union[str, bytes, None] = None,
                 on_output: OnOutput = None, atomic: bool = False, recover: Optional[str] = None) -> AsyncResult:
        """Run a /bin/sh line."""
        return await _do_async(self._ask_run(line, True, timeout, input, atomic, recover, on_output))

    def stream(self, code: Code, *, timeout: Optional[float] = None,  # type: ignore[override]
               input: Union[str, bytes, None] = None, atomic: bool = False,
               recover: Optional[str] = None) -> AsyncStream:
        """Run Python code, and read its output as it arrives, then its value: `async for piece in s.stream(code)`."""
        return AsyncStream(lambda take: self._ask_run(code, False, timeout, input, atomic, recover, take))

    async def get(self, expression: str, *, trust: bool = False) -> Any:
        """Get a variable, or any expression, as a Python object."""
        return await _do_async(self._ask_get(expression, trust))

    async def set(self, name: str, value: object) -> None:
        """Set a variable by value."""
        await _do_async(self._ask_set(name, value))

    async def start(self, command: Union[str, Sequence[str]], *, open_input: bool = False) -> AsyncProcess:
        """Start a command that runs beside the cells: a /bin/sh line, or a list of words."""
        return AsyncProcess(self, *await _do_async(self._ask_start(command, open_input)))

    async def processes(self) -> List[AsyncProcess]:
        """List the session's processes, running and ended."""
        return [] if self._is_new() else [AsyncProcess(self, *row) for row in await _do_async(self._ask_processes())]

    async def snapshot(self, name: Optional[str] = None) -> Snapshot:
        """Take a snapshot of variables and files."""
        return await self._opened(self._ask_snapshot(name))

    async def snapshots(self) -> List[Snapshot]:
        """List the session's snapshots, oldest first."""
        return [] if self._is_new() else await _do_async(self._ask_snapshots())

    async def rollback(self, snapshot: Union[str, Snapshot]) -> None:
        """Roll variables and files back to a snapshot of this session."""
        try:
            await self._opened(self._ask_rollback(snapshot))
        except NotFound as error:
            raise _with_names(error, await self.snapshots())

    async def fork(self, n: int = 1, *, name: Optional[str] = None) -> Tuple[AsyncSandbox, ...]:
        """Make n sessions that continue from this one."""
        return await self._opened(self._ask_fork(n, name))

    async def diff(self, a: Compared = None, b: Compared = None) -> Dict[str, Any]:
        """Compare a with b; without them, show the changes that apply() would make in the session's project."""
        return await self._opened(self._ask_diff(a, b))

    async def export(self, path: Path, *, snapshot: Union[str, Snapshot, None] = None,
                     force: bool = False) -> Dict[str, Any]:
        """Write the session, or a snapshot of it, to a file."""
        return await self._opened(self._ask_export(path, snapshot, force))

    @classmethod
    async def import_(cls, path: Path, *, name: Optional[str] = None, tier: Optional[str] = None,
                      limits: Optional[Mapping[str, object]] = None, allow_degraded: bool = False,
                      require_exact: bool = False) -> AsyncSandbox:
        """Make a session from a file written by export()."""
        return await _do_async(cls._ask_import(path, name, tier, limits or {}, allow_degraded, require_exact))

    async def apply(self, *paths: Path, unverified: bool = False, reviewed: bool = False,
                    allow: Union[str, Iterable[str]] = (), project_moved: bool = False) -> Dict[str, Any]:
        """Apply the changes shown by diff() to the session's project, without asking."""
        flags = {"unverified": unverified, "reviewed": reviewed, "project-moved": project_moved}
        return await self._opened(self._ask_apply(paths, flags, allow))

    async def history(self, limit: int = 50) -> List[Cell]:
        """List the session's cells, newest first."""
        return [] if self._is_new() else await _do_async(self._ask_history(limit))

    async def result(self, cell: int) -> AsyncResult:
        """Get the result of an earlier cell, with its output and displays."""
        return await self._opened(self._ask_result(cell))

    async def interrupt(self) -> bool:
        """Interrupt the running cell, from another task."""
        return not self._is_new() and await _do_async(self._ask_interrupt())

    async def set_limits(self, **limits: object) -> List[str]:
        """Change limits of the session permanently; returns the names of limits that apply at the next wake."""
        return await self._opened(self._ask_limits(limits))

    async def hibernate(self) -> None:
        """Save the session and end its sandbox; the next cell wakes it."""
        await self._opened(self._ask_name("hibernate", _nothing))

    async def destroy(self) -> None:
        """Destroy the session permanently, with its files and snapshots."""
        if self._may_exist():
            self._needs_destroy()
            await _do_async(self._ask_name("destroy", _nothing))
            self._is_open = False

    @staticmethod
    async def list() -> List[Dict[str, Any]]:
        """List all sessions of this user."""
        return await _do_async(_ask_sessions())

    async def close(self) -> None:
        """Destroy the session, unless a name was given. This object cannot run cells afterwards."""
        self._is_open, self._is_closed = False, True
        if self._needs_destroy():
            try:
                await _do_async(self._ask_name("destroy", _nothing))
            except NotFound:
                pass

    async def __aenter__(self) -> AsyncSandbox:
        self._check()
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        traceback: Optional[TracebackType]) -> None:
        try:
            await self.close()
        except SandboxError:
            if error is None:
                raise
