# SPDX-License-Identifier: Apache-2.0
"""Runs through the C library: arguments, callbacks, and tools of this program."""
from __future__ import annotations

import asyncio
import ctypes
import json
import sys
from codecs import getincrementaldecoder
from ctypes import POINTER, Structure, byref, c_bool, c_char_p, c_int64, c_size_t, c_uint32, c_void_p, sizeof
from queue import Empty, SimpleQueue
from typing import Any, Callable, Coroutine, Dict, List, Mapping, Optional, Sequence, Set, Tuple, cast
from weakref import WeakValueDictionary

from . import _library
from ._completion import NO_KEYS, caller, shown, tell, text_of
from ._errors import InvalidArgument, SandboxLost
from ._library import STOP_MS, Call, Connection, _lib, texts, connection, loop_connection, text
from .core import raised_by
from .exceptions import ConfigValidationError, ToolExecutionError
from .tools import Tool

LATER_S = 5.0  # the run's limit for a tool exceeds the one here by this
TICK_S = 0.2  # longest wait of the main thread before Python checks for signals
_OnText = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_size_t)
_OnCalled = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_uint32, c_char_p, c_void_p, c_size_t)


class _Tool(Structure):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("description", c_char_p), ("parameters", c_char_p),
                ("timeout_ms", c_int64)]


class _Prompt(Structure):
    _fields_ = [("size", c_size_t), ("text", c_char_p), ("system", c_char_p), ("resume", c_char_p),
                ("agent", c_bool), ("folder", c_char_p), ("settings", POINTER(c_char_p)),
                ("tools", POINTER(POINTER(_Tool))), ("record", _OnText), ("streamed", _OnText),
                ("called", _OnCalled), ("ctx", c_void_p), ("noted", _OnText)]


_lib.snipara_ask.restype = _lib.snipara_settings.restype = _lib.snipara_answer.restype = c_void_p
_lib.snipara_answer.argtypes = [c_void_p, c_uint32, c_bool, c_char_p, c_size_t]


def _lines(settings: Mapping[str, object]) -> Any:
    return texts(["{}={}".format(name, text_of(value)) for name, value in settings.items()], "settings")


def _tools(tools: Sequence[Tool]) -> Any:
    array = (POINTER(_Tool) * (len(tools) + 1))()
    for at, tool in enumerate(tools):
        array[at] = ctypes.pointer(_Tool(
            sizeof(_Tool), text(tool.name, "name"), text(tool.description, "description"),
            json.dumps(tool.parameters).encode(), min(round((tool.timeout + LATER_S) * 1000), 600000)))
    return array


def settings(given: Mapping[str, object]) -> Dict[str, Any]:
    """Get the configuration in force."""
    call = connection().ask("settings", None, _lines(given))
    try:
        call.wait()
        return call.answer()
    except InvalidArgument as error:
        raised = ConfigValidationError(str(error))
        raised.object = error.object
        raise raised from None
    finally:
        call.free()


class Ask:
    """A run. Call run() or wait(), once."""

    def __init__(self, prompt: Optional[str], settings: Mapping[str, object], more: Mapping[str, object], *,
                 system: Optional[str] = None, resume: Optional[str] = None, tools: Sequence[Tool] = (),
                 is_agent: bool = False, on_text: Optional[Callable[[str], object]] = None) -> None:
        self.settings = {name: value for name, value in {**settings, **more}.items()
                         if resume is None or name not in NO_KEYS}
        self.says = bool(settings.get("verbose"))
        self.tools = {tool.name: tool for tool in tools}
        self.is_agent = is_agent
        self.on_text = on_text
        self.is_done = False
        self.place = caller()
        self.id = ""
        self.limits: Dict[str, Any] = {}
        self.records: List[Dict[str, Any]] = []  # of an agent only
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._call: Optional[Call] = None
        self._busy: Set[asyncio.Future[None]] = set()
        self._jobs: Optional[SimpleQueue[Optional[Callable[[], None]]]] = None  # jobs for the thread in wait()
        self._is_stopped = False
        self._error: Optional[str] = None  # the error of the run, without the command line's remedy
        self._raw = _Prompt(
            sizeof(_Prompt), text(prompt, "prompt"), text(system, "system"), text(resume, "trajectory_id"), is_agent,
            None, _lines(self.settings), _tools(tools) if tools else None, _record_thunk, _text_thunk, _called_thunk,
            None, _note_thunk)

    # From the library

    def take_record(self, record: Dict[str, Any]) -> None:
        if "budget" in record and (record.get("_type") == "trajectory_metadata" or record.get("step") == "resume"):
            self.id, self.limits = record.get("trajectory_id", self.id), record["budget"]
        if "end" in record:
            self._error = record["end"]["error"]
        if self.is_agent:
            self.records.append(record)
        if self.says:
            line = _line(record)
            if line:
                print("snipara_sandbox: " + shown(line), file=sys.stderr)

    def take_text(self, data: bytes) -> None:
        piece = self._decoder.decode(data)
        if piece and self.on_text is not None:
            self.on_text(piece)

    def take_call(self, number: int, name: str, arguments: str) -> None:
        """Handle a tool call of the model in a separate task."""
        task = asyncio.ensure_future(self._serve(number, name, arguments))
        self._busy.add(task)
        task.add_done_callback(self._served)

    def _served(self, task: asyncio.Future[None]) -> None:
        self._busy.discard(task)
        if not task.cancelled():
            task.exception()  # only exceptions that also end the loop, which raises them

    async def _serve(self, number: int, name: str, arguments: str) -> None:
        tool, given = self.tools[name], json.loads(arguments)
        is_ok, said = await _called(tool, given, self._value(tool, given))
        call = self._call
        if call is not None and call.handle is not None and not call.is_done:
            data = said.encode("utf-8", "replace")
            _lib.snipara_free(_lib.snipara_answer(call.handle, number, is_ok, data, len(data)))

    async def _value(self, tool: Tool, given: Dict[str, Any]) -> Any:
        """The value that the tool returns."""
        jobs = self._jobs
        if jobs is None or type(tool).execute is not Tool.execute:
            return await tool.execute(**given)
        loop = asyncio.get_running_loop()
        begun: asyncio.Future[Any] = loop.create_future()

        def end(value: Any, error: Optional[Exception]) -> None:
            if not begun.done():
                begun.set_result((value, error))

        def job() -> None:
            how: Tuple[Any, Optional[Exception]]
            try:
                how = (tool.begin(**given), None)
            except Exception as error:
                how = (None, error)
            if not loop.is_closed():
                loop.call_soon_threadsafe(end, *how)
        jobs.put(job)
        value, error = await begun
        if error is not None:
            raise error
        return await value if hasattr(value, "__await__") else value

    # Running it

    async def run(self) -> Dict[str, Any]:
        """Run and return the answer. If the task is cancelled, the run is stopped, which its record reports."""
        self._loop = loop = asyncio.get_running_loop()
        box = loop_connection(loop)
        call = self._begin(box)
        done: asyncio.Future[None] = loop.create_future()

        def ended() -> None:
            if not done.done():
                done.set_result(None)
        box.when_done(call, ended)
        if self._is_stopped:
            call.interrupt()
        try:
            await done
        except BaseException:
            call.let_go()
            raise
        finally:
            self._call, self.is_done = None, True
            for task in self._busy:
                task.cancel()
        try:
            return self._finished(call.answer())
        except SandboxLost as error:
            if error.object:  # the id of the run, which had started
                error.remedy = "resume"
            raise
        finally:
            call.free()

    def _begin(self, box: Connection) -> Call:
        call = self._call = box._call()
        box.calls[call.key] = call
        _asks[call.key] = self
        self._raw.ctx = call.key
        call.handle = _lib.snipara_ask(box.box, byref(self._raw))
        return call

    def _finished(self, answer: Dict[str, Any]) -> Dict[str, Any]:
        remedy: Dict[str, Any] = answer.get("remedy") or {}
        if answer.get("error") and self._error:
            is_limit = remedy.get("kind") == "raise_limit"
            answer["error"] = self._error + ("; " + raised_by(remedy["name"]) if is_limit else "")
        return answer

    def wait(self) -> Dict[str, Any]:
        """Run in an event loop of a separate thread, where tools find no running loop.

        Ctrl-C stops the run and waits for its end; a second Ctrl-C returns at once.
        """
        from contextvars import copy_context
        from threading import Thread
        jobs = self._jobs = SimpleQueue()
        ends: List[Any] = []

        def work() -> None:
            try:
                ends.append((self._alone(), None))
            except BaseException as error:
                ends.append((None, error))
            jobs.put(None)
        thread = Thread(target=copy_context().run, args=(work,), daemon=True)
        thread.start()
        try:
            for job in iter(lambda: _next(jobs), None):
                job()
        except BaseException:
            self.stop()
            thread.join(STOP_MS / 1e3)
            raise
        thread.join()
        answer, error = ends[0]
        if error is not None:
            raise error
        return cast(Dict[str, Any], answer)

    def _alone(self) -> Dict[str, Any]:
        loop = asyncio.new_event_loop()
        task = loop.create_task(self.run())
        try:
            return loop.run_until_complete(task)
        except BaseException:  # such as SystemExit from a tool
            if not task.done():
                self.stop()
                loop.run_until_complete(asyncio.wait({task}, timeout=STOP_MS / 1e3))
                task.cancelled() or not task.done() or task.exception()
            raise
        finally:
            _close(loop)

    def stop(self) -> None:
        """Stop the run; from any thread."""
        self._is_stopped = True
        loop, running = self._loop, asyncio._get_running_loop()
        if loop is not None and loop is running:  # directly, before a tool that stops its own run is answered
            self._interrupt()
        elif loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._interrupt)

    def _interrupt(self) -> None:
        if self._call is not None:
            self._call.interrupt()


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel the remaining tasks."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=1))
    loop.run_until_complete(loop.shutdown_asyncgens())
    if _library._loops is not None:
        for box in _library._loops.pop(loop, ()):
            loop.remove_reader(box.fd)
    loop.close()


def _next(jobs: SimpleQueue[Optional[Callable[[], None]]]) -> Optional[Callable[[], None]]:
    """The next job. Wakes from time to time, because a signal may arrive just before the wait."""
    while True:
        try:
            return jobs.get(timeout=TICK_S)
        except Empty:
            pass


async def _called(tool: Tool, given: Dict[str, Any], doing: Coroutine[Any, Any, Any]) -> Tuple[bool, str]:
    """Whether the tool succeeded, and the text for the model."""
    try:
        value = await asyncio.wait_for(doing, tool.timeout)
        return True, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=_plain)
    except asyncio.TimeoutError as error:
        said = str(error) or "no answer within {} s".format(tool.timeout)
        failure: Exception = error
    except Exception as error:
        said = "{}: {}".format(type(error).__name__, error) if str(error) else type(error).__name__
        failure = error
    from logging import getLogger
    getLogger("snipara_sandbox").warning("%s", ToolExecutionError(tool.name, said, given), exc_info=failure)
    return False, said


def _plain(value: Any) -> Any:
    return value.to_dict() if hasattr(value, "to_dict") else str(value)


def _line(record: Dict[str, Any]) -> str:
    """A line for people about a record."""
    step = record.get("step")
    if step == "answer":
        answer = record["answer"]
        if not answer.get("ok"):
            return "the model failed: {}".format(answer.get("error"))
        said = (answer["message"].get("content") or "").strip()
        return "model: " + said[:200] if said else ""
    if step == "tool_result":
        return "{}: {}, {} ms".format(record["name"], "error" if record["is_error"] else "ok", record["duration_ms"])
    return ""


_asks: WeakValueDictionary[int, Ask] = WeakValueDictionary()


def _guarded(key: Optional[int], take: Callable[[Ask], None]) -> None:
    """Call take() in a callback of a run: an exception in it ends the run."""
    ask = _asks.get(key or 0)
    call = None if ask is None else ask._call
    if ask is None or call is None:
        return
    call.box.depth += 1
    try:
        take(ask)
    except BaseException as error:
        call.fail(error)
    call.box.depth -= 1


def _on_record(key: Optional[int], at: int, size: int) -> None:
    _guarded(key, lambda ask: ask.take_record(json.loads(ctypes.string_at(at, size))))


def _on_text(key: Optional[int], at: int, size: int) -> None:
    _guarded(key, lambda ask: ask.take_text(ctypes.string_at(at, size)))


def _on_called(key: Optional[int], _: int, number: int, tool: bytes, at: int, size: int) -> None:
    _guarded(key, lambda ask: ask.take_call(number, tool.decode(), ctypes.string_at(at, size).decode()))


def _on_note(key: Optional[int], at: int, size: int) -> None:
    _guarded(key, lambda ask: tell(ctypes.string_at(at, size).decode("utf-8", "replace"), ask.place))


_record_thunk, _text_thunk, _note_thunk = _OnText(_on_record), _OnText(_on_text), _OnText(_on_note)
_called_thunk = _OnCalled(_on_called)
