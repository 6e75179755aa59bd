"""Threads share models and caches: eight of them get the answers that one gets."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING

import numpy as np
import pytest

from steelyard.bounded_cache import BoundedCache
from steelyard.model import build_scene, link_points, load_model, setup_tables, write_model
from steelyard.model.geometry import scene
from steelyard.model.geometry.meshes import read_mesh_points, read_mesh_surface
from steelyard.model.geometry.surfaces import body_surfaces
from tests.mirrored import mirror_parameters

if TYPE_CHECKING:
    from pathlib import Path

    from steelyard.model import Model

THREADS = 8

MJCF = """<mujoco model="arm"><asset><mesh name="wedge" vertex="0 0 0  1 0 0  0 1 0  0 0 1"/></asset><worldbody>
<body name="{body}"><freejoint/><geom type="mesh" mesh="wedge" mass="2"/>
<body name="tip" pos="0 0 1"><joint name="bend" axis="0 1 0"/><geom type="capsule" size="0.1 0.2" mass="1"/></body>
</body></worldbody></mujoco>"""


def forget() -> None:
    """Empties the caches, so that threads fill them at the same time."""
    read_mesh_points.cache_clear()
    read_mesh_surface.cache_clear()
    scene._SURFACES = BoundedCache(8)


def answers(model: Model, folder: Path) -> list[bytes]:
    """Gives everything that the room computes from a model, as bytes."""
    arrays = [model.parameters, model.tree.rotations, model.neutral]
    arrays += [link_points(model, link) for link in model.links[:4]]
    for body in model.link_bodies[:4]:
        arrays += [array for surface in body_surfaces(model, body)[0] for array in surface]
    drawn = build_scene(model, model.neutral)
    arrays += [array for link in drawn.links for array in (link.vertices, link.triangles, link.coms, link.ellipsoids)]
    if model.setup.mirror is not None:
        arrays.append(mirror_parameters(model, model.parameters))
    folder.mkdir()
    path = folder / model.description.file.path.name
    write_model(model.with_parameters(1.01 * model.parameters), path)
    texts = [model.check().summary(), str(setup_tables(model.setup)), model.pinocchio.name, str(model.parameter_names)]
    return [np.ascontiguousarray(array).tobytes() for array in arrays] + [path.read_bytes(), *map(str.encode, texts)]


def ask_all(ask) -> list[list[bytes]]:
    """Asks from all threads at once."""
    gate = Barrier(THREADS)

    def wait_and_ask(number: int) -> list[bytes]:
        gate.wait(timeout=60)
        return ask(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(wait_and_ask, range(THREADS)))


def test_threads_that_share_a_model_get_what_one_gets(tmp_path) -> None:
    forget()
    alone = answers(load_model("icub"), tmp_path / "alone")
    forget()
    shared = load_model("icub")
    assert all(found == alone for found in ask_all(lambda number: answers(shared, tmp_path / str(number))))


def test_threads_that_load_their_own_models_get_what_one_gets(tmp_path) -> None:
    for number in range(THREADS):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}" / "arm.xml").write_text(MJCF.format(body=f"stem_{number}"))

    def load_and_ask(number: int, folder: str) -> list[bytes]:
        return answers(load_model(tmp_path / f"{number}" / "arm.xml"), tmp_path / f"{folder}_{number}")

    alone = [load_and_ask(number, "alone") for number in range(THREADS)]
    forget()
    assert ask_all(lambda number: load_and_ask(number, "together")) == alone


def test_what_threads_share_cannot_be_changed() -> None:
    model = load_model("icub")
    surfaces, unread = scene._surfaces(model)
    assert unread == ()
    triangles = body_surfaces(model, model.link_bodies[0])[0][0].triangles
    for array in (*surfaces[0], triangles, model.parameters, model.neutral, model.tree.rotations):
        with pytest.raises(ValueError, match="read-only"):
            array.flat[0] = 0
