"""Inspection: is this recording any good, and if not, what is to be done?"""

from steelyard.inspection.delays import Delay, Delays
from steelyard.inspection.findings import Finding
from steelyard.inspection.inspection import Inspection, estimate_delays, inspect_recording

__all__ = ["Delay", "Delays", "Finding", "Inspection", "estimate_delays", "inspect_recording"]
