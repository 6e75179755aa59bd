"""The rooms of the source: which may import which, through which door, how large they grow, and how they speak."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from benchmarks.house import PACKAGE, House, crowded_folders, survey

FREE = {"cli", "report"}
"""Rooms that may import every other one, and that no other room imports."""

ALLOWED = {
    "kinematics": set(),
    "model": {"kinematics"},
    "stance": {"kinematics", "model"},
    "drafting": {"model", "stance"},
    "recording": {"model", "inspection"},  # Recording.inspect() is public; it imports inspection when it is called
    "motion": {"kinematics", "model", "recording"},
    "regression": {"kinematics", "model", "motion"},
    "inspection": {"kinematics", "model", "recording", "motion", "regression"},
    "preparation": {"model", "recording", "motion", "regression", "inspection"},
    "identification": {"kinematics", "model", "motion", "regression"},
    "payload": {"kinematics", "model", "regression", "identification"},
    "validation": {"kinematics", "model", "recording", "motion", "regression", "preparation", "identification"},
    "calibration": {"kinematics", "model", "stance", "recording", "motion"},
    "laboratory": {"kinematics", "model", "stance", "recording", "motion", "regression"},
    "setups": set(),
}
"""The rooms that each room may import."""


@pytest.fixture(scope="module")
def house() -> House:
    return survey(Path(__file__).parents[1] / "src" / "steelyard")


def test_rooms_import_only_what_the_table_allows(house):
    edges = {edge for edge in house.edges if edge[0] not in {PACKAGE, *FREE}}
    assert not {(room, other) for room, other in edges if other not in ALLOWED[room]}
    assert not {(room, other) for room, other in house.edges if other in FREE and room not in {PACKAGE, *FREE}}


def test_the_table_has_every_room_and_no_way_up(house):
    assert set(house.rooms) == {PACKAGE, *FREE, *ALLOWED}
    down = {room: others - {"inspection"} if room == "recording" else others for room, others in ALLOWED.items()}
    assert list(TopologicalSorter(down).static_order())  # raises CycleError where two rooms import each other


def test_other_rooms_are_entered_by_their_package(house):
    assert not house.side_doors


def test_no_file_and_no_folder_outgrows_its_room(house):
    assert not house.long_files
    assert not crowded_folders(house)


def test_docstrings_are_imperative_names_unique_and_constants_explained(house):
    assert not house.docstrings
    assert not house.homonyms
    assert not house.constants


def test_nothing_is_looked_up_by_the_address_of_an_object():
    """An address belongs to another object once its own is gone."""
    found = []
    for path in (Path(__file__).parents[1] / "src" / "steelyard").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            keys = {
                ast.Subscript: lambda node: [node.slice],
                ast.Dict: lambda node: [key for key in node.keys if key is not None],
                ast.DictComp: lambda node: [node.key],
            }.get(type(node), lambda node: [])(node)
            inner = [part for key in keys for part in ast.walk(key)]
            if any(isinstance(part, ast.Call) and getattr(part.func, "id", "") == "id" for part in inner):
                found.append(f"{path.name}:{node.lineno}")
    assert not found
