"""Servos are as stiff as the robot is heavy, and are told what the reference needs."""

from dataclasses import replace

import numpy as np

from steelyard.laboratory import plan_motion
from steelyard.laboratory.servo import ROTOR_SHARE, servo_commands, tune_servo
from steelyard.stance.feasibility import required_efforts
from steelyard.stance.footing import plant_feet
from steelyard.stance.standing import stand_up
from steelyard.stance.trajectory import trace_course
from tests.laboratory.trials import robot


def test_rotors_of_the_model_file_count_once():
    model = robot("g1")
    bodies = tuple(
        replace(body, joint=replace(body.joint, armature=0.1)) if body.joint.velocity_size == 1 else body
        for body in model.bodies
    )
    home = stand_up(model).home
    plain = tune_servo(plant_feet(model), home)
    geared = tune_servo(plant_feet(replace(model, bodies=bodies)), home)
    moved = plain.armature / ROTOR_SHARE
    np.testing.assert_array_equal(geared.armature, 0.1)
    np.testing.assert_allclose(geared.stiffness / plain.stiffness, (moved + 0.1) / (1.05 * moved), rtol=1e-12)


def test_a_reference_on_its_course_gets_the_torque_it_needs():
    standing = stand_up(robot("g1"))
    footing = standing.footing
    course = trace_course(footing, plan_motion(robot("g1"), "sway", duration=6.0), 500.0)
    servo = tune_servo(footing, standing.home)
    commands = servo_commands(footing, servo, course, 1)
    exerted = servo.stiffness * (commands - course.q[:, 7:]) - servo.damping * course.v[:, 6:]
    for row in range(0, len(course.time), 250):
        needed = required_efforts(footing, course.q[row], course.v[row], course.a[row])[0]
        rotor = servo.armature * course.a[row, 6:]
        np.testing.assert_allclose(exerted[row], needed + rotor, atol=1e-9 * np.max(servo.stiffness))
