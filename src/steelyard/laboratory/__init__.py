"""The virtual laboratory: a true robot that differs from its model, on a floor, with realistic sensors."""

from steelyard.laboratory.balance import BalanceRun, simulate_balance
from steelyard.laboratory.events import Event
from steelyard.laboratory.hose import Hose
from steelyard.laboratory.sensors import DEFAULT_SENSORS, PERFECT_SENSORS, Instrument, Sensors
from steelyard.laboratory.trial import Trial, Truth, simulate
from steelyard.laboratory.true_robot import Payload
from steelyard.stance import BALANCE_DURATION, MOTIONS, plan_motion, plan_postures

__all__ = [
    "BALANCE_DURATION",
    "DEFAULT_SENSORS",
    "MOTIONS",
    "PERFECT_SENSORS",
    "BalanceRun",
    "Event",
    "Hose",
    "Instrument",
    "Payload",
    "Sensors",
    "Trial",
    "Truth",
    "plan_motion",
    "plan_postures",
    "simulate",
    "simulate_balance",
]
