"""Measure how the source is built: rooms, lines, imports, names and documentation.

``python -m benchmarks.house`` prints the rooms and what misses a bar, and exits with 1 where one is missed. ``--room
NAME`` lists what is left in one room, with file and line. ``--tree DIR`` looks at another checkout, such as an earlier
commit.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

MOST_LINES = 400
MOST_FILES = 25

FOYER = ("__init__", "__main__", "exceptions", "arrays", "bounded_cache", "wording", "whole_file")
"""Modules of the package itself, which every room may import."""

PACKAGE = "(package)"
"""What the modules of the package itself are listed under."""

SAME_BY_DESIGN = ("cli", "report/sections")
"""Folders whose files are named after the thing that they show: a command, a section of the report."""

IMPERATIVES = frozenset(
    """
    accept accumulate act add advance align allow answer append apply approximate arrange ask assemble assert
    assign attach average balance begin bin bind blend block bootstrap bound bracket bring build cache calculate
    calibrate call cap carry cast centre chain change check choose clamp classify clear clip close collapse
    collect combine compare compile complete compose compress compute concatenate condense condition configure
    confirm connect construct continue control convert copy correct correlate count cover create cross cut
    debounce decide decimate declare decode decompose deduce defer define delay delete delta demand derive
    describe design detect determine differentiate disable discard discretize display divide double downsample
    draft draw drive drop dump eliminate embed emit enclose encode end enforce enlarge ensure enter enumerate
    equal escape estimate evaluate exclude exchange execute expand expect explain export express extend extract factor
    fall fetch fill filter finalise find finish fit fix flag flatten flip fold follow forbid force form format
    forward freeze gather generate get give go group grow guard guess handle hash hold identify ignore implement
    import include infer initialise insert inspect install integrate interpolate interpret interrupt introduce
    invert isolate iterate join judge jump keep know label lay lead leave let lift limit linearise link list
    load locate lock look lower lump make map mark mask match maximise mean measure mention merge minimise
    mirror mix model modify monitor move multiply name narrow nest normalise note notice number obtain offer
    offset omit open optimise order orient outline own pack pad pair parse part partition pass paste perform
    permute perturb pick place plan play plot point pool postpone pour predict prefer prepare present preserve
    prevent print probe produce project promote propagate propose protect provide pull push put quantise quote
    raise randomise rank read rebuild recall receive recognise recompute reconstruct record recover reduce refer
    refine refresh refuse register reject relate relax release reload rely remember remove rename render reorder
    repair repeat replace replay report represent request require resample rescale reset reshape resolve respond
    restart restore restrict return reuse reverse rewrite rotate round route run sample save say scale scan
    schedule score search select send separate serialise serve set settle shape share shift shorten show shrink
    shuffle sign simplify simulate skip slice slow smooth solve sort space specify split spread square stack
    stamp stand start state step stop store stream strip subtract suggest sum summarise supply support surround
    survey suspend swap switch symmetrise synchronise take taper tell terminate test thin tie tighten time track
    train transfer transform translate transpose traverse treat trim truncate try turn unpack unscale update
    upgrade use validate verify view visit wait walk warn watch weigh weight whiten widen withhold wrap write
    yield zero
    """.split()  # noqa: SIM905  (a list of 600 quoted words would take 600 lines)
)
"""Verbs that a docstring may begin with; any other word is counted as none. Extend the list with verbs only."""

NOT_DOCUMENTATION = frozenset({"Gives", "Tells", "Says", "Gives,", "Tells,"})
"""Openings that no docstring has, properties, classes and modules included."""


@dataclass
class Room:
    """What is counted of one room.

    Attributes:
        files: How many modules it has, sub-rooms included.
        levels: Number of modules in each of its folders.
        lines: All lines.
        code: Lines without docstrings, comments, blanks, imports, and ``__all__``, which repeats imports.
    """

    files: int = 0
    levels: Counter[str] = field(default_factory=Counter)
    lines: int = 0
    code: int = 0


@dataclass
class House:
    """What is counted of the whole source.

    Attributes:
        rooms: By name.
        edges: Number of import statements by pair of rooms.
        side_doors: Imports of another room's modules, ``file:line module``.
        long_files: Files of more than 400 lines.
        docstrings: Docstrings that do not begin as they should, ``file:line first words``.
        constants: Numeric constants of modules that say neither source nor measurement, ``file:line name``.
        constant_count: Number of numeric constants of modules.
        classes: Where each public class is defined, by name.
        functions: Where each public function is defined, by name.
        modules: Where each module stands, by name.
    """

    rooms: dict[str, Room] = field(default_factory=lambda: defaultdict(Room))
    edges: Counter[tuple[str, str]] = field(default_factory=Counter)
    side_doors: list[str] = field(default_factory=list)
    long_files: list[str] = field(default_factory=list)
    docstrings: list[str] = field(default_factory=list)
    constants: list[str] = field(default_factory=list)
    constant_count: int = 0
    classes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    functions: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    modules: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @property
    def homonyms(self) -> list[str]:
        """Names that stand for more than one thing."""
        return [
            f"{kind} {name}: {', '.join(places)}"
            for kind, table in (("class", self.classes), ("function", self.functions), ("module", self.modules))
            for name, places in sorted(table.items())
            if len(places) > 1
        ]


def survey(source: Path) -> House:
    """Return what is counted of the package whose folder ``source`` is."""
    house = House()
    for path in sorted(source.rglob("*.py")):
        place = path.relative_to(source)
        room = place.parts[0] if len(place.parts) > 1 else PACKAGE
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        counted = house.rooms[room]
        counted.files += 1
        counted.levels[str(place.parent)] += 1
        counted.lines += len(text.splitlines())
        counted.code += _code_lines(text, tree)
        if len(text.splitlines()) > MOST_LINES:
            house.long_files.append(f"{place}: {len(text.splitlines())} lines")
        _look_at_imports(house, place, room, tree)
        _look_at_docstrings(house, place, tree)
        _look_at_constants(house, place, text, tree)
        _look_at_names(house, place, tree)
    return house


def _code_lines(text: str, tree: ast.Module) -> int:
    without: set[int] = set()
    for node in ast.walk(tree):
        text_alone = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        exports = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        if text_alone or exports or isinstance(node, ast.Import | ast.ImportFrom):
            without.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines: set[int] = set()
    quiet = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in quiet:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - without)


def _look_at_imports(house: House, place: Path, room: str, tree: ast.Module) -> None:
    for node in ast.walk(tree):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] != "steelyard" or len(parts) < 2 or parts[1] in FOYER:
                continue
            if parts[1] != room:
                house.edges[room, parts[1]] += 1
                if len(parts) > 2 and room != PACKAGE:
                    house.side_doors.append(f"{place}:{node.lineno} {name}")


def _look_at_docstrings(house: House, place: Path, tree: ast.Module) -> None:
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            continue
        words = (ast.get_docstring(node) or "").split()
        if not words:
            continue
        line = 1 if isinstance(node, ast.Module) else node.lineno
        said = f"{place}:{line} {' '.join(words[:6])}"
        if words[0] in NOT_DOCUMENTATION or (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and not (_is_property(node) or words[0].strip(",.:;").lower() in IMPERATIVES)
        ):
            house.docstrings.append(said)


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    texts = [ast.unparse(decorator) for decorator in node.decorator_list]
    return any(text.endswith(("property", ".setter")) for text in texts)


def _look_at_constants(house: House, place: Path, text: str, tree: ast.Module) -> None:
    lines = text.splitlines()
    for position, node in enumerate(tree.body):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        if not isinstance(node, ast.Assign | ast.AnnAssign) or not isinstance(target, ast.Name) or value is None:
            continue
        if not re.fullmatch(r"_?[A-Z][A-Z0-9_]*", target.id) or not _has_number(value):
            continue
        house.constant_count += 1
        following = tree.body[position + 1] if position + 1 < len(tree.body) else None
        documented = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
        end = node.end_lineno or node.lineno
        commented = any("#" in line for line in lines[node.lineno - 1 : end]) or lines[node.lineno - 2].startswith("#")
        if not documented and not commented:
            house.constants.append(f"{place}:{node.lineno} {target.id}")


def _has_number(value: ast.expr) -> bool:
    return any(
        isinstance(part, ast.Constant) and isinstance(part.value, int | float) and not isinstance(part.value, bool)
        for part in ast.walk(value)
    )


def _look_at_names(house: House, place: Path, tree: ast.Module) -> None:
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            table = house.classes if isinstance(node, ast.ClassDef) else house.functions
            if not (place.parts[0] == "cli" and isinstance(node, ast.FunctionDef)):
                table[node.name].append(str(place))
    by_design = any(str(place).startswith(f"{folder}/") for folder in SAME_BY_DESIGN)
    if place.stem not in ("__init__", "__main__") and not by_design:
        house.modules[place.stem].append(str(place))


def crowded_folders(house: House) -> list[str]:
    """Return the folders that hold too many files, with how many."""
    levels = (level for room in house.rooms.values() for level in room.levels.items())
    return [f"{level} ({count})" for level, count in levels if count > MOST_FILES]


def misses(house: House) -> list[str]:
    """Return the bars that are missed, a sentence each."""
    bars = (
        (house.side_doors, "imports of another room's modules"),
        (house.long_files, f"files of more than {MOST_LINES} lines"),
        (crowded_folders(house), f"folders of more than {MOST_FILES} files"),
        (house.homonyms, "names that stand for more than one thing"),
        (house.docstrings, "docstrings that do not begin with an imperative"),
        (house.constants, f"of {house.constant_count} constants without a source or a measurement"),
    )
    return [f"{len(found)} {words}" for found, words in bars if found]


def main() -> int:
    """Print the survey; return 1 where a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.house", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--tree", type=Path, default=Path(__file__).parents[1], help="root of the checkout to look at")
    parser.add_argument("--room", help="list what is left in this room (a folder's name, or a part of a path)")
    options = parser.parse_args()
    house = survey(options.tree / "src" / "steelyard")
    if options.room:
        for title in ("docstrings", "constants", "homonyms", "side_doors", "long_files"):
            found = [row for row in getattr(house, title) if options.room in row]
            print(f"{title}: {len(found)}", *found, sep="\n  ")
        return 0
    print(f"{'room':<16}{'files':>7}{'most in a folder':>18}{'lines':>8}{'code':>8}  imports")
    for name, room in sorted(house.rooms.items()):
        others = sorted(other for here, other in house.edges if here == name)
        print(
            f"{name:<16}{room.files:>7}{max(room.levels.values()):>18}{room.lines:>8}{room.code:>8}  {' '.join(others)}"
        )
    rooms = house.rooms.values()
    total = [sum(getattr(room, what) for room in rooms) for what in ("files", "lines", "code")]
    print(f"{'together':<16}{total[0]:>7}{'':>18}{total[1]:>8}{total[2]:>8}")
    missed = misses(house)
    print(*missed or ["no bar is missed"], sep="\n")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
