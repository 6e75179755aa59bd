"""Contact sheets: moments of a trial in one picture, rendered by MuJoCo without a window."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from steelyard.exceptions import LaboratoryError
from steelyard.laboratory.world import add_pieces, build_spec, set_configuration
from steelyard.stance import convex_pieces

if TYPE_CHECKING:
    from steelyard.laboratory.trial import Trial
    from steelyard.stance import Footing

_SKIN = {"leg": [0.36, 0.46, 0.62, 1.0], "body": [0.78, 0.80, 0.83, 1.0], "sole": [0.85, 0.42, 0.20, 1.0]}
"""RGBA colours of the parts: legs and soles stand out."""

_WIDTH, _HEIGHT = 300, 380
"""Size of one moment, pixels: a standing robot fills it."""


def draw_contact_sheet(trial: Trial, path: str | Path, *, count: int = 12, columns: int = 6) -> None:
    """Draw evenly spaced moments of a trial as one PNG.

    Links are drawn as their convex collision hulls: legs in blue, soles in orange.

    Args:
        trial: The trial.
        path: The picture file.
        count: Number of moments.
        columns: Number of moments in a row.

    Raises:
        LaboratoryError: MuJoCo cannot render here.
    """
    states = trial.truth.states
    compiled = _build_scene(trial.truth.footing)
    data = mujoco.MjData(compiled)
    columns_of = [
        compiled.jnt_qposadr[mujoco.mj_name2id(compiled, mujoco.mjtObj.mjOBJ_JOINT, joint)]
        for joint in trial.truth.model.joints
    ]
    rows = np.linspace(0, len(states.time) - 1, count).astype(np.int64)
    try:
        renderer = mujoco.Renderer(compiled, _HEIGHT, _WIDTH)
    except (AttributeError, ImportError, RuntimeError, mujoco.FatalError) as error:  # what GLFW, EGL and OSMesa raise
        raise LaboratoryError(
            "MuJoCo found nothing to draw with; without a display, set MUJOCO_GL=egl before Python starts"
        ) from error
    sheet = Image.new("RGB", (columns * _WIDTH, -(-count // columns) * _HEIGHT), "white")
    pen = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(size=18)
    with renderer:
        camera = _camera(trial)
        for number, row in enumerate(rows):
            set_configuration(data, columns_of, states.q[row])
            mujoco.mj_forward(compiled, data)
            renderer.update_scene(data, camera)
            left, top = number % columns * _WIDTH, number // columns * _HEIGHT
            sheet.paste(Image.fromarray(renderer.render()), (left, top))
            pen.text((left + 10, top + 8), f"{states.time[row]:.1f} s", fill="black", font=font)
    sheet.save(Path(path), format="PNG")


def _camera(trial: Trial) -> Any:
    """Return a camera in front of the robot, slightly to its side."""
    footing, states = trial.truth.footing, trial.truth.states
    ahead = footing.feet[0].stand.rotation[:2, 0]
    height = float(np.max(states.q[:, 2]))
    camera = mujoco.MjvCamera()
    camera.lookat[:] = [*footing.ground_corners.mean(axis=0), 0.9 * height]
    camera.distance = 3.1 * height
    camera.azimuth = float(np.rad2deg(np.arctan2(-ahead[1], -ahead[0]))) + 35.0
    camera.elevation = -12.0
    return camera


def _build_scene(footing: Footing) -> Any:
    model = footing.model
    spec = build_spec(model)
    spec.visual.headlight.ambient = [0.45, 0.45, 0.45]
    spec.visual.headlight.diffuse = [0.45, 0.45, 0.45]
    spec.visual.global_.offwidth, spec.visual.global_.offheight = _WIDTH, _HEIGHT
    spec.worldbody.add_light(pos=[1.0, 1.0, 3.0], dir=[-0.3, -0.3, -1.0], diffuse=[0.5, 0.5, 0.5])
    checker = {"type": mujoco.mjtTexture.mjTEXTURE_2D, "builtin": mujoco.mjtBuiltin.mjBUILTIN_CHECKER}
    spec.add_texture(name="tiles", **checker, rgb1=[0.93] * 3, rgb2=[0.86] * 3, width=256, height=256)
    gradient = {"type": mujoco.mjtTexture.mjTEXTURE_SKYBOX, "builtin": mujoco.mjtBuiltin.mjBUILTIN_GRADIENT}
    spec.add_texture(name="sky", **gradient, rgb1=[1.0] * 3, rgb2=[0.90, 0.93, 0.97], width=64, height=384)
    tiles = spec.add_material(name="tiles", texrepeat=[10.0, 10.0], texuniform=True)
    tiles.textures[int(mujoco.mjtTextureRole.mjTEXROLE_RGB)] = "tiles"
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0.0, 0.0, 0.05], material="tiles")
    pieces = convex_pieces(model)
    add_pieces(spec, model, pieces)
    legs = {model.joint_body(joint) for joint in footing.leg_joints}
    for number, piece in enumerate(pieces):
        spec.geom(f"piece {number}").rgba = _SKIN["leg" if piece.body in legs else "body"]
    for foot in footing.feet:
        flat = foot.corners[:, :2]
        thick = np.concatenate([np.c_[flat, np.zeros(len(flat))], np.c_[flat, np.full(len(flat), 0.01)]])
        corners = thick @ foot.placement.rotation.T + foot.placement.translation
        name = f"sole {foot.sole.name}"
        spec.add_mesh(name=name, uservert=corners.ravel())
        spec.body(model.bodies[foot.body].name).add_geom(
            name=name, type=mujoco.mjtGeom.mjGEOM_MESH, meshname=name, mass=0.0, rgba=_SKIN["sole"]
        )
    return spec.compile()
