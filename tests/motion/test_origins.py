"""Evidence knows the stretches that it came from: what lies in a gap was not learned from."""

import numpy as np
import pytest

from steelyard.motion import reconstruct_motion, stream_motion
from steelyard.regression import gather_evidence
from steelyard.regression.origins import Origin, origins_of, shared_seconds
from tests.laboratory.trials import robot, short_trial


def test_what_lies_in_a_gap_was_not_learned_from():
    model, recording = robot("g1"), short_trial("g1", "dance", noise="default").recording
    silent = np.array(recording.column("left_foot.fz"))
    silent[(recording.time > 2.5) & (recording.time < 5.0)] = np.nan
    broken = recording.with_values({**recording.values, "left_foot.fz": silent})
    motion = reconstruct_motion(model, broken, cutoff=5.0)
    assert np.diff(motion.time).max() > 2.5
    whole = gather_evidence(model, motion, nuisance=()).origins
    parts = gather_evidence(model, stream_motion(model, broken, cutoff=5.0), nuisance=()).origins
    assert len(whole) == 2
    assert whole == parts
    between = reconstruct_motion(model, recording.between(2.5, 5.0), cutoff=5.0)
    assert shared_seconds(whole, origins_of(between)) == 0.0
    assert shared_seconds(whole, origins_of(motion)) == pytest.approx(sum(each.end - each.start for each in whole))


def test_a_slow_motion_has_no_gaps_and_a_short_one_is_a_seam():
    motion = reconstruct_motion(robot("g1"), short_trial("g1", "dance").recording, cutoff=5.0)
    first, last = float(motion.time[0]), float(motion.time[-1])
    assert origins_of(motion) == [Origin(motion.origin, first, last)]
    # Samples every 1.2 s, all there; and a step of three periods that is shorter than a seam.
    assert len(origins_of(motion.thinned(12))) == 1
    assert len(origins_of(motion.where(np.arange(len(motion)) % 20 > 2))) == 1
    assert origins_of(motion.between(0, 0)) == []
