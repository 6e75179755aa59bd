"""Motions are planned without MuJoCo, and from many threads as from one."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from steelyard import load_model, plan_motion
from steelyard.stance import MOTION_DURATIONS, MOTIONS, plan_balance, required_efforts, solve_posture, stand_up

THREADS = 8


def test_planning_needs_no_mujoco():
    program = (
        "import sys; sys.modules['mujoco'] = None\n"
        "import steelyard.stance\n"
        "from steelyard import load_model, plan_motion\n"
        "model = load_model('g1')\n"
        "assert plan_motion(model, 'dance', duration=6.4).duration == 6.4\n"
        "assert steelyard.stance.plan_balance(model, duration=9.6).duration == 9.6\n"
        "assert not [name for name in sys.modules if name.startswith('steelyard.laboratory')]\n"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr


def test_each_motion_has_a_duration():
    assert tuple(MOTION_DURATIONS) == MOTIONS


def test_threads_plan_what_one_thread_plans():
    """A fresh model for the threads: nothing of it is in a cache when they begin."""
    alone, shared = load_model("g1"), load_model("g1")
    expected = [plan_motion(alone, "sway", seed=seed, duration=6.0).positions for seed in range(2)]
    task = plan_balance(alone, duration=9.6)

    def plan(number):
        return plan_motion(shared, "sway", seed=number % 2, duration=6.0), plan_balance(shared, duration=9.6)

    with ThreadPoolExecutor(THREADS) as pool:
        planned = list(pool.map(plan, range(THREADS)))
    for number, (trajectory, drawn) in enumerate(planned):
        np.testing.assert_array_equal(trajectory.positions, expected[number % 2])
        np.testing.assert_array_equal(drawn.curve.c, task.curve.c)
        assert drawn is planned[0][1]


def test_threads_share_a_standing_robot():
    """Inverse kinematics, efforts and collision checks of one `Standing`, all at once, as one after the other."""
    standing = stand_up(load_model("g1"))
    footing, target = standing.footing, standing.target
    generator = np.random.default_rng(0)
    wanted = [target.com + generator.uniform(-0.02, 0.02, 2) for _ in range(64)]
    velocity = generator.standard_normal(footing.pinocchio.nv)

    def work(com):
        q = solve_posture(footing, type(target)(target.upper, com, target.height, target.tilt), standing.home).q
        violation = standing.feasibility.check_posture(q)
        return np.concatenate([q, *required_efforts(footing, q, velocity, velocity)]), violation

    expected = [work(com) for com in wanted]
    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(work, wanted))
    for (numbers, violation), (same_numbers, same_violation) in zip(found, expected, strict=True):
        np.testing.assert_array_equal(numbers, same_numbers)
        assert violation == same_violation
