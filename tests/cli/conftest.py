"""What tests of several commands share."""

from __future__ import annotations

import signal

import pytest


@pytest.fixture
def default_handler():
    """Ctrl-C raises KeyboardInterrupt, also where the tests run in the background of a shell, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
