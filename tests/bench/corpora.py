# SPDX-License-Identifier: Apache-2.0
"""Corpora of the retrieval benchmark: a copy of some source without its documentation, and questions made of that.

A question is the first sentence of the documentation of a function, without the function's own name; the answer is the
function. Every docstring, and every comment right above a function in C, is taken out of the copy, so nothing that is
searched has the words of the question by copying them. Line numbers stay.
"""

import ast
import hashlib
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

WORD = re.compile(r"[^\W_]+")
SENTENCE = re.compile(r"(?<=[^.])[.:;](?:\s|$)|\n\s*\n")
COMMENT = re.compile(r"^/\*(.*?)\*/[ \t]*\n(?=([^\s#/{}][^;{}#]*?\b(\w+)\([^;{}#]*?)[;{])", re.DOTALL | re.MULTILINE)
DECLARED = re.compile(r"^(?=(?:[^\s#/{}][^;{}#]*?\b(snp_\w+)\([^;{}#]*?\)[^;{}#()]*)[;{])", re.MULTILINE)
WORDS_AT_LEAST = 3


class Found(NamedTuple):
    """A function, and what its documentation says of it."""

    path: str
    line: int
    name: str
    sentence: str


class Question(NamedTuple):
    text: str
    answers: frozenset[str]  # PATH:LINE
    is_tuning: bool  # of the half that settings are chosen by


def sentence_of(text: str, name: str) -> str:
    """The first sentence on one line, without the name; "" if little is left."""
    first = " ".join(SENTENCE.split(text.strip(), maxsplit=1)[0].split())
    first = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)(\(\))?", " ", first, flags=re.IGNORECASE)
    first = " ".join(first.split())
    return first if len(WORD.findall(first)) >= WORDS_AT_LEAST else ""


def blank(text: str) -> str:
    return "\n" * text.count("\n")


def python_docs(tree: ast.AST) -> Iterator[tuple[ast.AST, ast.Expr, str]]:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and body and isinstance(
                body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) and isinstance(body[0].value.value, str):
            yield node, body[0], body[0].value.value


def of_python(path: str, text: str) -> tuple[str, list[Found]]:
    found = []
    lines = [line.encode() for line in text.splitlines(keepends=True)]
    for node, expr, doc in python_docs(ast.parse(text)):
        first, last = expr.lineno - 1, (expr.end_lineno or expr.lineno) - 1
        end = lines[last][expr.end_col_offset:]
        lines[first] = lines[first][:expr.col_offset] + b"pass" + (b"\n" if last > first else end)
        for i in range(first + 1, last + 1):
            lines[i] = b"\n" if i < last else end.lstrip(b" ;") or b"\n"
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            at = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            found.append(Found(path, at, node.name, sentence_of(doc, node.name)))
    return b"".join(lines).decode(), found


def of_c(path: str, text: str) -> tuple[str, list[Found]]:
    found = []

    def take(match: "re.Match[str]") -> str:
        words = re.sub(r"^\s*\*+ ?", "", match[1], flags=re.MULTILINE)
        line = text.count("\n", 0, match.end()) + 1
        found.append(Found(path, line, match[3], sentence_of(words, match[3])))
        return blank(match[0])

    return COMMENT.sub(take, text), found


def copy(source: str, paths: list[str], target: str) -> list[Question]:
    """Write the files without their documentation; the questions of those in Python and C."""
    everything: list[Found] = []
    places: dict[str, set[str]] = {}  # of functions with a name of their own: declared here, defined there
    for path in sorted(paths):
        with open(os.path.join(source, path), encoding="utf-8", errors="surrogateescape", newline="") as file:
            text = file.read()
        try:
            stripped, found = (of_python if path.endswith(".py") else of_c)(path, text)
            stripped.encode()
        except (SyntaxError, ValueError):
            continue  # neither searched nor asked about
        everything += found
        for match in DECLARED.finditer(stripped if path.endswith((".c", ".h")) else ""):
            places.setdefault(match[1], set()).add(f"{path}:{stripped.count(chr(10), 0, match.start()) + 1}")
        os.makedirs(os.path.dirname(os.path.join(target, path)) or target, exist_ok=True)
        with open(os.path.join(target, path), "w", encoding="utf-8", newline="") as out:
            out.write(stripped)
    return questions(everything, places)


def questions(everything: list[Found], places: dict[str, set[str]]) -> list[Question]:
    """One for each sentence; where several functions share it, each is an answer."""
    answers: dict[str, set[str]] = {}
    for one in everything:
        if one.sentence:
            answers.setdefault(one.sentence, set()).update({f"{one.path}:{one.line}"}, places.get(one.name, ()))
    return [Question(text, frozenset(answers[text]), hashlib.sha256(text.encode()).digest()[0] < 128)
            for text in sorted(answers)]
