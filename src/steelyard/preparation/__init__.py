"""Preparation: everything that is chosen once, between raw recordings and their Evidence."""

from steelyard.preparation.noise_probe import probe_noise
from steelyard.preparation.preparation import Preparation, PreparedRecording, load_preparation, preparation_of
from steelyard.preparation.prepare import prepare
from steelyard.preparation.prepared_motions import PreparedMotions
from steelyard.preparation.sources import RecordingLike, naming, open_recording

__all__ = [
    "Preparation",
    "PreparedMotions",
    "PreparedRecording",
    "RecordingLike",
    "load_preparation",
    "naming",
    "open_recording",
    "preparation_of",
    "prepare",
    "probe_noise",
]
