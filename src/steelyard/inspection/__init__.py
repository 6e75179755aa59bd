"""Inspection: problems of a recording, and their remedies."""

from steelyard.inspection.channel_spectra import estimate_white_noise
from steelyard.inspection.delays import Delay, Delays
from steelyard.inspection.findings import Finding
from steelyard.inspection.inspection import Channel, Inspection, estimate_delays, inspect_recording
from steelyard.inspection.outliers import Outlier, detect_outliers, mask_outliers
from steelyard.inspection.plots import draw_braille, draw_png, legend, plan_plots

__all__ = [
    "Channel",
    "Delay",
    "Delays",
    "Finding",
    "Inspection",
    "Outlier",
    "detect_outliers",
    "draw_braille",
    "draw_png",
    "estimate_delays",
    "estimate_white_noise",
    "inspect_recording",
    "legend",
    "mask_outliers",
    "plan_plots",
]
