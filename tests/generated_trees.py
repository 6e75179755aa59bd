"""Random trees as URDF and MJCF text, with every joint type, for hypothesis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import strategies as st

from steelyard.model.parameters import to_mass_com_inertia
from tests.humanoids import random_bodies

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray

URDF_KINDS = ("revolute", "continuous", "prismatic", "fixed")
MJCF_KINDS = ("hinge", "slide", "ball", "weld", "two hinges", "slide and hinge", "slide and ball")


@st.composite
def trees(draw: st.DrawFn, kinds: tuple[str, ...]) -> tuple[list[int], list[str], int]:
    """Draws the parent of each body after the root, the kind of each joint, and a seed for the numbers."""
    count = draw(st.integers(1, 9))
    parents = [draw(st.integers(0, index)) for index in range(count)]
    chosen = [draw(st.sampled_from(kinds)) for _ in range(count)]
    if all(kind in ("fixed", "weld") for kind in chosen):
        chosen[-1] = kinds[0]
    return parents, chosen, draw(st.integers(0, 2**20))


def numbers(values: FloatArray | list[float]) -> str:
    return " ".join(repr(float(value)) for value in values)


def urdf_text(tree: tuple[list[int], list[str], int]) -> str:
    """Gives a URDF: rotated inertial frames, comments, odd spacing, and links without mass where they may be."""
    parents, kinds, seed = tree
    generator = np.random.default_rng(seed)
    bodies = random_bodies(generator, len(parents) + 1)
    names = [f"link_{index}" for index in generator.permutation(len(parents) + 1)]
    lines = ["<?xml version='1.0'?>", "<!-- made by a test -->", '<robot name="tree">']
    for index, (name, body) in enumerate(zip(names, bodies, strict=True)):
        heavy = index == 0 or index not in parents or generator.random() < 0.8
        mass, com, matrix = to_mass_com_inertia(body)
        tensor = matrix.tolist()
        angles = numbers(generator.uniform(-3, 3, size=3))
        origin = f'<origin rpy="{angles}" xyz="{numbers(com)}"/>' if generator.random() < 0.9 else ""
        inertial = (
            f'\t<inertial>{origin}<!-- from CAD -->\n      <mass   value = "{float(mass)!r}"/>\n'
            f'      <inertia ixx="{tensor[0][0]!r}" ixy="{tensor[0][1]!r}" ixz="{tensor[0][2]!r}" '
            f'iyy=\'{tensor[1][1]!r}\' iyz="{tensor[1][2]!r}" izz="{tensor[2][2]!r}" />\n    </inertial>'
        )
        lines.append(f'  <link name="{name}">\n{inertial}\n  </link>' if heavy else f'  <link name="{name}"/>')
    for index, (parent, kind) in enumerate(zip(parents, kinds, strict=True)):
        axis = generator.normal(size=3) if generator.random() < 0.5 else np.eye(3)[generator.integers(3)]
        limit = '<limit lower="-2" upper="2.5" effort="10" velocity="3"/>' if kind in ("revolute", "prismatic") else ""
        lines.append(
            f'  <joint name="joint_{generator.integers(1000)}_{index}" type="{kind}">\n'
            f'    <origin xyz="{numbers(generator.uniform(-0.5, 0.5, size=3))}" '
            f'rpy="{numbers(generator.uniform(-3, 3, size=3))}"/>\n'
            f'    <parent link="{names[parent]}"/><child link="{names[index + 1]}"/>\n'
            f'    <axis xyz="{numbers(axis)}"/>{limit}\n  </joint>'
        )
    return "\n".join([*lines, "</robot>", ""])


def mjcf_text(tree: tuple[list[int], list[str], int]) -> str:
    """Gives an MJCF: defaults, frames, degrees or radians, references, several joints on a body, shapes."""
    parents, kinds, seed = tree
    generator = np.random.default_rng(seed)
    bodies = random_bodies(generator, len(parents) + 1)
    degrees = bool(generator.random() < 0.5)
    children: dict[int, list[int]] = {}
    for index, parent in enumerate(parents):
        children.setdefault(parent, []).append(index + 1)

    def joint(kind: str, index: int, number: int) -> str:
        if kind == "ball":
            return f'<joint name="j{index}_{number}" type="ball" pos="{numbers(generator.normal(size=3) * 0.1)}"/>'
        reference = generator.uniform(-1, 1) * (57.0 if degrees and kind == "hinge" else 1.0)
        ranges = ' range="-2 2"' if generator.random() < 0.5 else ""
        return (
            f'<joint name="j{index}_{number}" type="{kind}" axis="{numbers(generator.normal(size=3))}" '
            f'pos="{numbers(generator.normal(size=3) * 0.1)}" ref="{reference!r}"{ranges}/>'
        )

    def inertia(index: int) -> str:
        mass, com, tensor = to_mass_com_inertia(bodies[index])
        choice = generator.integers(3)
        if choice == 0:
            full = [tensor[0, 0], tensor[1, 1], tensor[2, 2], tensor[0, 1], tensor[0, 2], tensor[1, 2]]
            return f'<inertial pos="{numbers(com)}" mass="{float(mass)!r}" fullinertia="{numbers(full)}"/>'
        if choice == 1:
            moments = numbers(np.linalg.eigvalsh(tensor))
            turn = numbers(generator.normal(size=4))
            return f'<inertial pos="{numbers(com)}" mass="{float(mass)!r}" quat="{turn}" diaginertia="{moments}"/>'
        return f'<geom type="box" size="0.1 0.2 0.05" pos="{numbers(com)}" mass="{float(mass)!r}"/><!-- a shape -->'

    def body(index: int, depth: int) -> str:
        pad = "  " * depth
        if index == 0:
            joints = '<freejoint name="base"/>' if seed % 2 else ""
        else:
            kind = kinds[index - 1]
            each = {
                "hinge": ["hinge"],
                "slide": ["slide"],
                "ball": ["ball"],
                "weld": [],
                "two hinges": ["hinge", "hinge"],
                "slide and hinge": ["slide", "hinge"],
                "slide and ball": ["slide", "ball"],
            }[kind]
            joints = "".join(joint(one, index, number) for number, one in enumerate(each))
        inside = "\n".join(body(child, depth + 1) for child in children.get(index, []))
        turn = numbers(generator.normal(size=4))
        text = (
            f'{pad}<body name="b{index}" pos="{numbers(generator.normal(size=3) * 0.3)}" quat="{turn}">'
            f"{joints}{inertia(index)}\n{inside}\n{pad}</body>"
        )
        if index and generator.random() < 0.3:
            text = f'{pad}<frame pos="0 0.1 0" euler="{"30 0 10" if degrees else "0.5 0 0.2"}">\n{text}\n{pad}</frame>'
        return text

    return (
        f'<mujoco model="tree">\n  <compiler angle="{"degree" if degrees else "radian"}" autolimits="true"/>\n'
        '  <default><joint armature="0.01" damping="0.1"/></default>\n'
        f'  <worldbody>\n    <geom type="plane" size="1 1 1"/>\n{body(0, 2)}\n  </worldbody>\n</mujoco>\n'
    )
