"""XML documents whose elements know their position in the text, so that edits change nothing else.

Model files are edited only where a number changes: comments, order and formatting survive. The parser is expat without
entities: a file that declares any is refused, which rules out entity expansion attacks and external files.
"""

from __future__ import annotations

import codecs
import hashlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from steelyard.exceptions import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

_ATTRIBUTE = re.compile(rb"""\s+([^\s=/>"']+)\s*=\s*("[^"]*"|'[^']*')""")
_START_TAG = re.compile(rb"""<(?:[^"'>]|"[^"]*"|'[^']*')*>""")
_DECLARED_ENCODING = re.compile(rb"""^<\?xml[^>]*?encoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")
_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_DEEPEST = 512
"""Levels of nested elements that are accepted. Set by judgement: more than any robot has bodies in a chain, and few
enough for the recursion of `Element.walk`."""


@dataclass(eq=False)
class Element:
    """An element of an `XmlDocument`.

    Attributes:
        tag: Its name, with prefix.
        attributes: Its attributes, in order.
        children: Its child elements, in order.
        line: The line on which it begins, from 1.
        start: Offset of its ``<`` in the document's bytes.
        content_start: Offset after its start tag.
        end: Offset after its end.
        closed: Whether it is written ``<tag/>``.
    """

    tag: str
    attributes: Mapping[str, str]
    line: int
    start: int
    content_start: int = 0
    end: int = 0
    closed: bool = False
    children: list[Element] = field(default_factory=list)

    def find(self, tag: str) -> Element | None:
        """Return the first child called `tag`, if there is one."""
        return next((child for child in self.children if child.tag == tag), None)

    def find_all(self, tag: str) -> list[Element]:
        """Return the children called `tag`, in order."""
        return [child for child in self.children if child.tag == tag]

    def walk(self) -> Iterator[Element]:
        """Yield this element and all below it, in document order."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class Edit:
    """A replacement of the bytes from `start` to `end`."""

    start: int
    end: int
    replacement: bytes


@dataclass(frozen=True, eq=False)
class XmlDocument:
    """The text of an XML file, as UTF-8 bytes, and its elements.

    Attributes:
        path: Where it was read from, or will be written to.
        content: The text, UTF-8, without byte order mark.
        encoding: The encoding of the file.
        mark: Its byte order mark, if it has one.
        root: The outermost element.
    """

    path: Path
    content: bytes
    encoding: str
    mark: bytes
    root: Element

    @property
    def sha256(self) -> str:
        """Hash of the text."""
        return hashlib.sha256(self.content).hexdigest()

    def encoded(self) -> bytes:
        """Return the document as bytes of a file, in the encoding that it was read in."""
        if self.encoding == "utf-8":
            return self.mark + self.content
        return self.mark + self.content.decode("utf-8").encode(self.encoding, errors="xmlcharrefreplace")

    def inner(self, element: Element) -> bytes:
        """Return the text between an element's tags; empty for ``<tag/>``."""
        if element.closed:
            return b""
        return self.content[element.content_start : self.content.rindex(b"</", element.content_start, element.end)]

    def indentation(self, element: Element) -> bytes:
        """Return the white space before an element on its line; empty if something else is there."""
        line_start = self.content.rfind(b"\n", 0, element.start) + 1
        before = self.content[line_start : element.start]
        return before if not before.strip() else b""

    def set_attributes(self, element: Element, values: Mapping[str, str | None]) -> list[Edit]:
        """Return the edits that set attributes (None removes one) and keep every other byte of the tag."""
        tag = self.content[element.start : element.content_start]
        spans = {match.group(1).decode(): match for match in _ATTRIBUTE.finditer(tag)}
        edits = []
        added = b""
        for name, value in values.items():
            match = spans.get(name)
            if value is None:
                if match is not None:
                    edits.append(Edit(element.start + match.start(), element.start + match.end(), b""))
            elif match is None:
                added += f" {name}={quoteattr(value)}".encode()
            else:
                start, end = match.span(2)
                edits.append(Edit(element.start + start, element.start + end, quoteattr(value).encode()))
        if added:
            last = max((match.end() for match in spans.values()), default=1 + len(element.tag.encode()))
            edits.append(Edit(element.start + last, element.start + last, added))
        return edits

    def insert_first(self, parent: Element, text: str) -> Edit:
        """Return the edit that inserts `text`, one line, before the first child of `parent`, indented like it."""
        newline = b"\r\n" if b"\r\n" in self.content[:4096] else b"\n"
        outer = self.indentation(parent)
        step = outer + b"  "
        if parent.children and self.indentation(parent.children[0]):
            step = self.indentation(parent.children[0])
        block = newline + step + text.encode()
        if parent.closed:
            opened = self.content[parent.start : parent.content_start].rstrip(b"/> \t\r\n")
            replacement = opened + b">" + block + newline + outer + f"</{parent.tag}>".encode()
            return Edit(parent.start, parent.end, replacement)
        inner = self.inner(parent)
        if not inner.strip():
            return Edit(parent.content_start, parent.content_start + len(inner), block + newline + outer)
        return Edit(parent.content_start, parent.content_start, block)

    def apply(self, edits: Iterable[Edit], path: Path) -> XmlDocument:
        """Return the document with `edits` applied, parsed again.

        Raises:
            ValueError: Two edits overlap.
        """
        content = self.content
        limit = len(content)
        for edit in sorted(edits, key=lambda edit: (edit.start, edit.end), reverse=True):
            if edit.end > limit:
                raise ValueError("two edits of one document overlap")
            content = content[: edit.start] + edit.replacement + content[edit.end :]
            limit = edit.start
        return XmlDocument(path, content, self.encoding, self.mark, _parse_elements(path, content))


def parse_xml(path: Path, raw: bytes) -> XmlDocument:
    """Parse an XML document.

    Raises:
        ModelError: It is not well-formed, is in an unknown encoding, or declares entities.
    """
    if not raw.strip():
        raise ModelError("the file is empty; copy it again, or name another", path=path)
    mark, encoding = next(((mark, name) for mark, name in _BYTE_ORDER_MARKS if raw.startswith(mark)), (b"", ""))
    if not encoding:
        if b"\0" in raw[:1024]:
            raise ModelError("this is no text: it holds zero bytes; give a URDF or MJCF file", path=path)
        declared = _DECLARED_ENCODING.match(raw.lstrip()[:200])
        encoding = "utf-8" if declared is None else declared.group(1).decode("ascii")
    try:
        encoding = codecs.lookup(encoding).name
        content = raw[len(mark) :].decode(encoding).encode("utf-8")
    except LookupError as error:
        raise ModelError(f"the encoding {encoding!r} is unknown; save the file as UTF-8", path=path) from error
    except UnicodeError as error:
        where = f"byte {error.start}" if isinstance(error, UnicodeDecodeError) else "something"
        raise ModelError(
            f"{where} is not {encoding} text; save the file as UTF-8, or declare its encoding", path=path
        ) from error
    return XmlDocument(path, content, encoding, mark, _parse_elements(path, content))


def read_xml(path: Path) -> XmlDocument:
    """Read an XML file; see `parse_xml`.

    Raises:
        ModelError: Also when there is no such file, or it cannot be read.
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError as error:
        raise ModelError("there is no such file; check the path", path=path) from error
    except OSError as error:
        raise ModelError(f"the file cannot be read ({error.strerror}); check its permissions", path=path) from error
    return parse_xml(path, raw)


def _parse_elements(path: Path, content: bytes) -> Element:
    parser = expat.ParserCreate("utf-8")
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    parser.ordered_attributes = True
    roots: list[Element] = []
    open_elements: list[Element] = []

    def refusal(message: str) -> ModelError:
        return ModelError(message, path=path, line=parser.CurrentLineNumber)

    def start(tag: str, attributes: list[str]) -> None:
        position = parser.CurrentByteIndex
        if len(open_elements) >= _DEEPEST:
            raise refusal(f"elements are nested more than {_DEEPEST} deep; this is no model file")
        pairs = dict(zip(attributes[::2], attributes[1::2], strict=True))
        element = Element(tag, pairs, parser.CurrentLineNumber, position)
        element.content_start = _START_TAG.match(content, position).end()  # type: ignore[union-attr]  # expat saw the tag
        element.closed = content[element.content_start - 2 : element.content_start] == b"/>"
        (open_elements[-1].children if open_elements else roots).append(element)
        open_elements.append(element)

    def end(_tag: str) -> None:
        element = open_elements.pop()
        element.end = element.content_start if element.closed else content.index(b">", parser.CurrentByteIndex) + 1

    def refuse_entity(name: str, *_rest: object) -> None:
        raise refusal(f"the file declares the entity {name!r}; Steelyard expands none: write its text out in full")

    def refuse_outside_type(_name: str, system: str | None, public: str | None, _internal: int) -> None:
        if system or public:
            raise refusal(
                f"the file refers to a document type elsewhere ({system or public}); Steelyard reads none: remove the "
                "<!DOCTYPE>"
            )

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.EntityDeclHandler = refuse_entity
    parser.StartDoctypeDeclHandler = refuse_outside_type
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise ModelError(
            f"the XML is broken: {expat.ErrorString(error.code)} (column {error.offset + 1}); correct it there",
            path=path,
            line=error.lineno,
        ) from error
    return roots[0]


def format_numbers(values: Iterable[float]) -> str:
    """Return the shortest texts that read back as the same numbers, separated by spaces."""
    return " ".join(repr(float(value)) for value in values)
