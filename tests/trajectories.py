# SPDX-License-Identifier: Apache-2.0
"""Records of runs, written by hand: as ours (docs/reference/trajectory.md), and as the product before ours did."""

import hashlib
import json
import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lib import Json


def chained(records: Iterable[Json]) -> list[str]:
    """Lines of records with their hashes."""
    last, lines = "0" * 64, []
    for number, record in enumerate(records, 1):
        body = json.dumps({**record, "seq": number}, ensure_ascii=False, separators=(",", ":"))
        last = hashlib.sha256((last + body).encode()).hexdigest()
        lines.append(body[:-1] + f',"hash":"{last}"' + "}")
    return lines


def write(folder: str, lines: Iterable[str], ident: str | None = None) -> str:
    """A file of lines; its id."""
    ident = ident or str(uuid.uuid4())
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, ident + ".jsonl"), "w") as out:
        out.write("".join(line + "\n" for line in lines))
    os.chmod(os.path.join(folder, ident + ".jsonl"), 0o644)
    return ident


def turn(n: int, text: str, *tools: tuple[str, Any, str, bool], prompt: str = "go on",
         tokens: tuple[int, int] = (1000, 100), clock: int = 0, error: Any = None, iteration: int = 0,
         images: Sequence[Any] = ()) -> Iterator[Json]:
    """The records of one call. tools: (name, arguments, result, is_error)."""
    call, before = f"call-{n}", None if n == 0 else f"call-{n - 1}"
    calls = [{"id": f"tool-{n}-{i}", "name": tool[0], "arguments": tool[1]} for i, tool in enumerate(tools)]
    results = [{"tool_call_id": f"tool-{n}-{i}", "content": tool[2], "is_error": tool[3]}
               for i, tool in enumerate(tools)]
    when = {"timestamp": "2026-11-22T10:00:00.000Z"}
    usage = {"input": tokens[0], "output": tokens[1], "estimated": False}
    yield {"_type": "step", "step": "ask", **when, "call_id": call, "parent_call_id": before, "turn": n,
           "iteration": iteration, "estimate": 900, "elapsed_ms": clock}
    yield {"_type": "step", "step": "answer", **when, "call_id": call, "elapsed_ms": clock + 400,
           "answer": {"ok": error is None, "message": {"content": text}, "tool_calls": calls, "usage": usage,
                      "cost_usd": 0.01, "model": "m", "provider": "replay", "tries": 1, "duration_ms": 400,
                      **({} if error is None else {"error": error})}}
    for i, result in enumerate(results):
        yield {"_type": "step", "step": "tool", **when, "call_id": call, "tool_call_id": result["tool_call_id"],
               "name": tools[i][0], "session": "s", "after_cell": n, "elapsed_ms": clock + 400}
        yield {"_type": "step", "step": "tool_result", **when, "call_id": call, **result, "name": tools[i][0],
               "skipped": False, "cell": n + 1, "status": "error" if result["is_error"] else "ok", "state": "kept",
               "files": {}, "duration_ms": 100, "elapsed_ms": clock + 500,
               **({"images": list(images)} if images and i == 0 else {})}
    yield {"trajectory_id": "t", "call_id": call, "parent_call_id": before, "depth": n, "prompt": prompt,
           "response": text, "tool_calls": calls, "tool_results": results, "repl_results": [],
           "input_tokens": tokens[0], "output_tokens": tokens[1], "duration_ms": 400, "error": error, **when,
           "estimated_cost_usd": 0.01, "model": "m", "provider": "replay", "elapsed_ms": clock + 500}


def head(prompt: str, **more: Any) -> Json:
    return {"_type": "trajectory_metadata", "trajectory_id": "t", "timestamp": "2026-11-22T10:00:00.000Z",
            "event_count": 0,
            "total_tokens": 0, "total_duration_ms": 0, "format": 2, "kind": "run", "prompt": prompt, "model": "m",
            "session": "s", "budget": {"token_budget": 8000, "max_subcalls": 12}, **more}


def end(answer: str | None, calls: int, tokens: int, ms: int = 1000, **more: Any) -> Json:
    return {"_type": "trajectory_metadata", "trajectory_id": "t", "timestamp": "2026-11-22T10:01:00.000Z",
            "event_count": calls, "total_tokens": tokens, "total_duration_ms": ms,
            "end": {"success": True, "stopped_by": None, "error": None, "partial": None,
                    "final": {"answer": answer, "answer_source": "final"}, "files": {}, **more}, "elapsed_ms": ms}


def cell(output: str, error: str | None = None) -> str:
    """A cell's result, as a model gets it."""
    return json.dumps({"success": error is None, "untrusted": "data", "output": output, "error": error,
                       "execution_time_ms": 3})


def old_lines(prompt: str, response: str) -> list[str]:
    """A file of the product before ours: sums first, one event, nothing else."""
    return [json.dumps({"_type": "trajectory_metadata", "trajectory_id": "old",
                        "timestamp": "2025-01-02T03:04:05.678901", "event_count": 1, "total_tokens": 42,
                        "total_duration_ms": 1234}),
            json.dumps({"trajectory_id": "old", "call_id": "c1", "parent_call_id": None, "depth": 0, "prompt": prompt,
                        "response": response,
                        "tool_calls": [{"id": "a", "name": "execute_code", "arguments": {"code": "1 + 1"}}],
                        "tool_results": [{"tool_call_id": "a", "content": "{'output': '2'}", "is_error": False}],
                        "repl_results": [], "input_tokens": 40, "output_tokens": 2, "duration_ms": 1234, "error": None,
                        "timestamp": "2025-01-02T03:04:05.678901", "estimated_cost_usd": None})]
