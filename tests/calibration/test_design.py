"""Designed poses stand flat, tell more than drawn ones, and what they promise is what calibration then finds."""

import numpy as np
import pinocchio as pin
import pytest

from steelyard import IdentifiabilityError, StanceError, calibrate, design_calibration, load_model, read_recording
from steelyard.calibration.design import draw_flat_poses
from tests.calibration.standing import USUAL, chained, offsets_of, readings, robot


@pytest.mark.parametrize("placements", [1, 3])
def test_drawn_poses_have_flat_soles(placements):
    model = robot("g1")
    drawn = draw_flat_poses(model, 20, seed=3, placements=placements)
    built, data = model.pinocchio, model.pinocchio.createData()
    assert set(drawn.placements.tolist()) == set(range(placements))
    for q, margin in zip(drawn.configurations, drawn.margins, strict=True):
        pin.framesForwardKinematics(built, data, q)
        for sole in model.setup.soles:
            place = data.oMf[built.getFrameId(sole.frame)]
            heights = (sole.vertices @ place.rotation.T + place.translation)[:, 2]
            np.testing.assert_allclose(heights, 0.0, atol=1e-5)
        assert margin > 0.0


def test_a_design_tells_more_than_drawn_poses_and_keeps_its_promise(tmp_path):
    model = robot("g1")
    design = design_calibration(
        model, 15, seed=1, candidates=80, placements=2, imus=["pelvis"], noise=USUAL, mounting=0.0
    )
    assert design.condition < design.condition_initial
    assert design.configurations.shape == (15, len(model.joints))
    assert "expected standard errors" in design.summary()
    assert np.all(design.margins > 0.0)
    assert np.all(np.diff(design.placements) >= 0)
    design.write(tmp_path / "poses.csv")
    back = read_recording(tmp_path / "poses.csv", model)
    np.testing.assert_allclose(
        back.column("q.left_knee_joint"), design.configurations[:, model.joints.index("left_knee_joint")]
    )
    # The same poses, read by such sensors, are calibrated as well as was promised.
    pool = draw_flat_poses(model, 80, seed=1, placements=2).configurations
    which = [int(np.argmin(np.abs(pool[:, 7:] - each).max(axis=1))) for each in design.configurations]
    found = calibrate(
        model,
        readings("g1", pool[which], ("pelvis",), offsets_of(chained("g1", ("pelvis",))), USUAL),
        noise=USUAL,
        mounting=0.0,
    )
    for joint in found.joints:
        assert found.standard_errors[joint] == pytest.approx(design.standard_errors[joint], rel=0.25)


def test_the_same_seed_gives_the_same_design():
    first, second = (design_calibration(robot("g1"), 6, candidates=20, seed=2) for _ in range(2))
    np.testing.assert_array_equal(first.configurations, second.configurations)


def test_what_makes_no_sense_is_told():
    with pytest.raises(IdentifiabilityError, match="cannot be chosen"):
        design_calibration(robot("g1"), 1)
    with pytest.raises(IdentifiabilityError, match="no inertial sensor"):
        design_calibration(robot("g1"), imus=["nose"])
    with pytest.raises(IdentifiabilityError, match="0 ways"):
        design_calibration(robot("g1"), placements=0)
    with pytest.raises(StanceError, match="no soles"):
        design_calibration(load_model(robot("g1").description.file.path))
