"""What the software may print, read from its source: notes, remarks and findings, and the messages of errors.

A text is given as a template: what is filled in when it is printed stands as ``…``.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "steelyard"

LEAST_WORDS, MANY_WORDS = 3, 7
"""Shorter texts are parts of others, names of columns or keys. Texts of many words are meant for people, wherever they
stand."""

NO_NOTES = ("cli/", "drafting/words.py", "laboratory/", "report/", "stance/")
"""Rooms without notes: commands and reports repeat what others say, and the others speak through events and errors."""

FINDINGS = "report/sections/findings.py"
"""But reports begin with sentences of their own."""

_SINK = re.compile(r"note|remark|finding|undetermined", re.IGNORECASE)
"""What things are called that gather notes: lists, functions that give them, arguments."""

_SPEAKING = re.compile(r"note|remark|finding|about|in_words|explain|unseen", re.IGNORECASE)
"""What functions are called whose results, or what they yield, are notes."""

_ERROR = re.compile(r"(Error|BadParameter|Warning)$")


@dataclass(frozen=True)
class Words:
    """A text that may be printed.

    Attributes:
        template: The text, with ``…`` for what is filled in.
        place: File and line.
    """

    template: str
    place: str


@cache
def notes() -> tuple[Words, ...]:
    """Gives all notes, remarks and findings of the rooms, and longer texts that are parts of them or of errors."""
    return tuple(
        words
        for words, kind in _all()
        if kind == "note" and (words.place.startswith(FINDINGS) or not words.place.startswith(NO_NOTES))
    )


@cache
def texts() -> tuple[Words, ...]:
    """Gives all that may be printed: notes, messages of errors, and whatever else has a few words."""
    return tuple(words for words, _ in _all())


def fits(entry: str, template: str) -> bool:
    """Tells whether an entry's words, between its ``…``, stand in a template in the same order."""
    place = 0
    for part in (part.strip() for part in entry.split("…")):
        found = template.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return True


@cache
def _all() -> tuple[tuple[Words, str], ...]:
    found: list[tuple[Words, str]] = []
    for path in sorted(SOURCE.rglob("*.py")):
        collector = _Collector(path.relative_to(SOURCE).as_posix())
        collector.visit(ast.parse(path.read_text(encoding="utf-8")))
        found += collector.found
    return tuple(found)


class _Collector(ast.NodeVisitor):
    """Walks through a module, and knows at each text whether it ends up as a note or an error."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.found: list[tuple[Words, str]] = []
        self.kind = ""
        self.speaks = False

    def visit(self, node: ast.AST) -> None:
        template = _template(node)
        if template is None:
            super().visit(node)
        else:
            count = len(re.findall(r"[^\W\d_]{2,}", template))
            sentence = re.match(r"[A-Z…]", template) is not None and template.endswith((".", ".…"))
            kind = self.kind or ("note" if sentence or count >= MANY_WORDS else "")
            if count >= LEAST_WORDS:
                self.found.append((Words(template, f"{self.name}:{node.lineno}"), kind))  # type: ignore[attr-defined]

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._within("error", node)

    def visit_Call(self, node: ast.Call) -> None:
        called = ast.unparse(node.func)
        if _ERROR.search(called):
            self._within("error", node)
        elif called.startswith("typer.") or called == "replace":
            self._within("", node)
        elif _SINK.search(called):
            self._within(self.kind or "note", node)
        else:
            self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        self._assigned(node, *node.targets)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._assigned(node, node.target)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._assigned(node, node.target)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        outer, self.speaks = self.speaks, bool(_SPEAKING.search(node.name))
        self.generic_visit(node)
        self.speaks = outer

    def visit_Return(self, node: ast.Return) -> None:
        self._within("note" if self.speaks else self.kind, node)

    def visit_Yield(self, node: ast.Yield) -> None:
        self._within("note" if self.speaks else self.kind, node)

    def _assigned(self, node: ast.stmt, *targets: ast.expr) -> None:
        told = any(_SINK.search(ast.unparse(target)) for target in targets)
        self._within("note" if told else self.kind, node)

    def _within(self, kind: str, node: ast.AST) -> None:
        outer, self.kind = self.kind, kind
        self.generic_visit(node)
        self.kind = outer


def _template(node: ast.AST) -> str | None:
    """Gives a text with ``…`` for what is filled in; None for what is no text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _tidy(node.value)
    if isinstance(node, ast.JoinedStr):
        parts = (str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
        return _tidy("".join(parts))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = _template(node.left), _template(node.right)
        if any(side is not None for side in sides):
            return _tidy("".join("…" if side is None else side for side in sides))
    return None


def _tidy(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"\{[^{}]*\}", "…", text))
