"""Small models, written as text."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from steelyard.drafting import draft_setup
from steelyard.model import load_model

if TYPE_CHECKING:
    from pathlib import Path

    from steelyard.drafting import SetupDraft

INERTIAL = '<inertial><mass value="1"/><inertia ixx=".01" ixy="0" ixz="0" iyy=".01" iyz="0" izz=".01"/></inertial>'
FOOT_BOX = '<collision><origin xyz="0.03 0 -0.04"/><geometry><box size="0.2 0.1 0.02"/></geometry></collision>'


def draft_of(folder: Path, text: str, name: str = "robot.urdf") -> SetupDraft:
    """Return the draft of a model given as text, read back from a file beside it."""
    (folder / name).write_text(text, encoding="utf-8")
    draft = draft_setup(folder / name)
    again = load_model(draft.write(folder / "setup.toml", force=True))
    assert again.links == draft.model.links
    return draft


def finding(draft: SetupDraft, what: str) -> tuple[str, str]:
    (found,) = [finding for finding in draft.findings if finding.what == what]
    return found.kind, found.source


def link(name: str, inside: str = "", *, mass: bool = True) -> str:
    return f"<link name={quoteattr(name)}>{INERTIAL if mass else ''}{inside}</link>"


def joint(
    name: str, parent: str, child: str, xyz: str, axis: str | None = "0 1 0", inside: str = "", rpy: str = "0 0 0"
) -> str:
    """Return a joint; fixed where it has no axis."""
    kind = "fixed" if axis is None else "revolute"
    moves = "" if axis is None else f'<axis xyz="{axis}"/><limit lower="-2" upper="2" effort="50" velocity="9"/>'
    return (
        f'<joint name={quoteattr(name)} type="{kind}">'
        f"<parent link={quoteattr(parent)}/><child link={quoteattr(child)}/>"
        f'<origin xyz="{xyz}" rpy="{rpy}"/>{moves}{inside}</joint>'
    )


def urdf(*elements: str, name: str = "small") -> str:
    return f"<robot name={quoteattr(name)}>{''.join(elements)}</robot>"


def biped(left: str = "left_", right: str = "right_", *, foot: str = FOOT_BOX, more: str = "") -> str:
    """Return a pelvis on two legs of three joints, with the names of the sides as prefixes."""
    elements = [link("pelvis")]
    for side, y in ((left, 0.1), (right, -0.1)):
        elements += [link(f"{side}thigh"), link(f"{side}shank"), link(f"{side}foot", foot)]
        elements += [
            joint(f"{side}hip", "pelvis", f"{side}thigh", f"0 {y} -0.1"),
            joint(f"{side}knee", f"{side}thigh", f"{side}shank", "0 0 -0.4"),
            joint(f"{side}ankle", f"{side}shank", f"{side}foot", "0 0 -0.4"),
        ]
    return urdf(*elements, more)


MJCF = """
<mujoco model="walker">
  <compiler angle="radian" autolimits="true"/>
  <default>
    <geom type="capsule" size="0.04"/>
    <default class="visual"><geom contype="0" conaffinity="0" group="2"/></default>
    <default class="foot"><geom type="sphere" size="0.005"/></default>
  </default>
  <worldbody>
    <light pos="0 0 3"/>
    <geom name="floor" type="plane" size="5 5 0.1"/>
    <body name="pelvis" pos="0 0 1">
      <freejoint name="floating_base"/>
      <geom fromto="0 -0.1 0 0 0.1 0" mass="5"/>
      <site name="imu_in_pelvis" pos="-0.04 0 0.05"/>
      <body name="torso" pos="0 0 0.1">
        <joint name="waist" axis="0 0 1" range="-1 1"/>
        <geom fromto="0 0 0.05 0 0 0.4" mass="8"/>
        <site name="imu_in_torso" pos="0 0 0.3" quat="0 0 0 1"/>
      </body>
      <body name="left_thigh" pos="0 0.1 0">
        <joint name="left_hip" axis="0 1 0" range="-2 2"/>
        <geom fromto="0 0 -0.1 0 0 -0.35" mass="2"/>
        <body name="left_shank" pos="0 0 -0.4">
          <joint name="left_knee" axis="0 1 0" range="0 2"/>
          <geom fromto="0 0 -0.1 0 0 -0.35" mass="2"/>
          <body name="left_foot" pos="0 0 -0.4">
            <joint name="left_ankle" axis="0 1 0" range="-1 1"/>
            <geom class="visual" type="box" pos="0.03 0 -0.03" size="0.11 0.05 0.02" mass="0.5"/>
            <geom class="foot" pos="0.12 0.04 -0.04"/>
            <geom class="foot" pos="0.12 -0.04 -0.04"/>
            <geom class="foot" pos="-0.06 0.03 -0.04"/>
            <geom class="foot" pos="-0.06 -0.03 -0.04"/>
            <site name="left_foot_force" pos="0 0 -0.01"/>
          </body>
        </body>
      </body>
      <body name="right_thigh" pos="0 -0.1 0">
        <joint name="right_hip" axis="0 1 0" range="-2 2"/>
        <geom fromto="0 0 -0.1 0 0 -0.35" mass="2"/>
        <body name="right_shank" pos="0 0 -0.4">
          <joint name="right_knee" axis="0 1 0" range="0 2"/>
          <geom fromto="0 0 -0.1 0 0 -0.35" mass="2"/>
          <body name="right_foot" pos="0 0 -0.4">
            <joint name="right_ankle" axis="0 1 0" range="-1 1"/>
            <geom class="visual" type="box" pos="0.03 0 -0.03" size="0.11 0.05 0.02" mass="0.5"/>
            <geom class="foot" pos="0.12 0.04 -0.04"/>
            <geom class="foot" pos="0.12 -0.04 -0.04"/>
            <geom class="foot" pos="-0.06 0.03 -0.04"/>
            <geom class="foot" pos="-0.06 -0.03 -0.04"/>
            <site name="right_foot_force" pos="0 0 -0.01"/>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
  <sensor>
    <gyro name="imu-pelvis-angular-velocity" site="imu_in_pelvis"/>
    <accelerometer name="imu-pelvis-linear-acceleration" site="imu_in_pelvis"/>
    <gyro name="imu-torso-angular-velocity" site="imu_in_torso"/>
    <accelerometer name="imu-torso-linear-acceleration" site="imu_in_torso"/>
    <framequat name="orientation" objtype="site" objname="imu_in_pelvis"/>
    <force name="lf" site="left_foot_force"/>
    <torque name="lt" site="left_foot_force"/>
    <force name="rf" site="right_foot_force"/>
    <jointactuatorfrc name="knee-torque" joint="left_knee"/>
  </sensor>
</mujoco>
"""
"""Walker in the style of MuJoCo's collections: classes, contact spheres, visual boxes, sites and sensors."""
