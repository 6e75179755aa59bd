"""The default method does not depend on how a robot is written down: units, frames, or the order of its links."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from steelyard import TotalMass, gather_evidence, identify, load_model
from steelyard.model.parameters import change_frame_matrix
from steelyard.motion import motion_from_generalized
from steelyard.regression.rows import joint_torques

if TYPE_CHECKING:
    from pathlib import Path

    from steelyard import Estimate, Model
    from steelyard.arrays import FloatArray

# Parent, where the joint is, its axis, mass, centre of mass and size: a trunk with two arms, one of two links.
LINKS = {
    "trunk": ("stand", (0.0, 0.0, 0.2), (0.0, 0.0, 1.0), 3.0, (0.0, 0.01, 0.1), (0.1, 0.12, 0.24)),
    "left": ("trunk", (0.0, 0.2, 0.2), (0.0, 1.0, 0.0), 2.0, (0.12, 0.0, 0.01), (0.3, 0.08, 0.06)),
    "hand": ("left", (0.25, 0.0, 0.0), (0.0, 1.0, 0.0), 0.6, (0.09, 0.01, 0.0), (0.22, 0.05, 0.07)),
    "right": ("trunk", (0.0, -0.2, 0.2), (1.0, 0.0, 0.0), 1.4, (0.03, 0.0, -0.1), (0.08, 0.06, 0.25)),
}


@dataclass(frozen=True)
class Description:
    """A way to write the same robot down.

    Attributes:
        length: Of a metre. A second is the root of it: gravity is what it is.
        mass: Of a kilogram.
        turns: How the frame of each link is turned, by name, seen from the usual one.
        names: What links are called, in the order in which they come.
    """

    length: float = 1.0
    mass: float = 1.0
    turns: dict[str, FloatArray] = field(default_factory=dict)
    names: tuple[tuple[str, str], ...] = tuple((link, link) for link in LINKS)

    def turn(self, link: str) -> FloatArray:
        return self.turns.get(link, np.eye(3))

    def model(self, folder: Path) -> Model:
        """Gives the robot; each name begins with its place, since joints are sorted by name."""
        called = dict(self.names)
        parts = ['<robot name="tree"><link name="stand"/>']
        for link, name in self.names:
            parent, place, axis, mass, centre, size = LINKS[link]
            here, before = self.turn(link), self.turn(parent)
            squares = np.square(np.multiply(self.length, size))
            tensor = here.T @ np.diag(mass * self.mass / 12.0 * (squares.sum() - squares)) @ here
            entries = {
                f"i{a}{b}": tensor["xyz".index(a), "xyz".index(b)] for a, b in ("xx", "xy", "xz", "yy", "yz", "zz")
            }
            angles = Rotation.from_matrix(before.T @ here).as_euler("xyz")
            parts.append(
                f'<link name="{name}"><inertial><origin xyz="{_text(self.length * here.T @ centre)}"/>'
                f'<mass value="{mass * self.mass!r}"/><inertia '
                + " ".join(f'{key}="{float(value)!r}"' for key, value in entries.items())
                + f'/></inertial></link><joint name="{name}" type="revolute">'
                f'<parent link="{called.get(parent, parent)}"/><child link="{name}"/>'
                f'<origin xyz="{_text(self.length * before.T @ place)}" rpy="{_text(angles)}"/>'
                f'<axis xyz="{_text(here.T @ axis)}"/><limit lower="-3" upper="3" effort="9" velocity="9"/></joint>'
            )
        path = folder / "tree.urdf"
        path.write_text("".join(parts) + "</robot>")
        return load_model(path, base="fixed")

    def carry(self, link: str) -> FloatArray:
        """Gives the matrix from a link's usual parameters to those in this description, shape (10, 10)."""
        scale = self.mass * np.repeat([1.0, self.length, self.length**2], [1, 3, 6])
        return scale[:, None] * change_frame_matrix(self.turn(link).T, np.zeros(3))


def _text(vector: FloatArray) -> str:
    return " ".join(repr(float(value)) for value in vector)


def estimate(description: Description, folder: Path, constraints: tuple = ()) -> tuple[Model, Estimate]:
    """Gives the estimate from the same motion of the same true robot with the same noise."""
    model = description.model(folder)
    plain = dict(description.names)
    generator = np.random.default_rng(4)
    places = [model.joints.index(plain[link]) for link in LINKS]
    state = generator.normal(size=(3, 80, len(LINKS))) * np.array([1.0, 2.0, 6.0])[:, None, None]
    noise = generator.normal(size=(80, len(LINKS)))
    heavier = generator.uniform(0.7, 1.4, size=len(LINKS))
    q, v, a, shaken = np.zeros((4, 80, model.velocity_size))
    q[:, places], v[:, places], a[:, places] = state / np.sqrt(description.length) ** np.arange(3)[:, None, None]
    shaken[:, places] = description.length * description.mass * noise
    true = np.array(model.parameters)
    for link, factor in zip(LINKS, heavier, strict=True):
        true[model.link_index(plain[link])] *= factor
    motion = motion_from_generalized(model, np.sqrt(description.length) * np.arange(80) / 100.0, q, v, a)
    torques = joint_torques(model.with_parameters(true), motion) + shaken
    measured = replace(motion, torques=dict(zip(model.joints, torques.T, strict=True)))
    return model, identify(
        model, gather_evidence(model, measured, torques=["*"], weights=None, nuisance=()), constraints=list(constraints)
    )


def _turns() -> dict[str, FloatArray]:
    return {link: Rotation.random(random_state=number).as_matrix() for number, link in enumerate(LINKS)}


DESCRIPTIONS = {
    "lengths": Description(length=100.0),
    "masses": Description(mass=1000.0),
    "frames": Description(turns=_turns()),
    "order": Description(names=(("trunk", "trunk"), ("right", "b_right"), ("left", "c_left"), ("hand", "d_hand"))),
}


@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("kind", DESCRIPTIONS)
def test_answers_move_with_the_description(kind: str, weighed: bool, tmp_path) -> None:
    other = DESCRIPTIONS[kind]
    sums = (TotalMass(7.2),), (TotalMass(7.2 * other.mass),)
    model, here = estimate(Description(), tmp_path, sums[0] if weighed else ())
    moved, there = estimate(other, tmp_path, sums[1] if weighed else ())
    assert here.options["spread"]["all links"] == pytest.approx(there.options["spread"]["all links"], rel=1e-5)
    assert here.options["noise_factor"] == pytest.approx(there.options["noise_factor"], rel=1e-5)
    if kind == "order":
        assert [dict(other.names)[link] for link in model.links] != list(moved.links)
    called = dict(other.names)
    for link in LINKS:
        one, two = model.link_index(link), moved.link_index(called[link])
        matrix = other.carry(link)
        covariance = here.covariance[10 * one : 10 * one + 10, 10 * one : 10 * one + 10]
        expected = matrix @ covariance @ matrix.T
        sizes = np.sqrt(np.diagonal(expected))
        found = there.covariance[10 * two : 10 * two + 10, 10 * two : 10 * two + 10]
        np.testing.assert_allclose(there.parameters[two] / sizes, matrix @ here.parameters[one] / sizes, atol=1e-4)
        np.testing.assert_allclose(found / np.outer(sizes, sizes), expected / np.outer(sizes, sizes), atol=1e-4)
        if kind != "frames":
            np.testing.assert_allclose(there.determined[two], here.determined[one], atol=1e-4)
