"""Nothing that a file holds makes a reader do worse than refuse it."""

import importlib.util

import pytest

from tests.recording import fuzzing

EXAMPLES = 200


def test_no_csv_file_breaks_the_reader():
    fuzzing.check_csv(EXAMPLES)


def test_no_npz_file_breaks_the_reader():
    fuzzing.check_npz(EXAMPLES)


def test_no_parquet_file_breaks_the_reader():
    fuzzing.check_parquet(EXAMPLES // 2)


@pytest.mark.skipif(importlib.util.find_spec("h5py") is None, reason="the extra ros is not installed")
def test_no_hdf5_file_breaks_the_reader():
    fuzzing.check_hdf5(EXAMPLES // 2)


@pytest.mark.skipif(importlib.util.find_spec("mcap") is None, reason="the extra ros is not installed")
def test_no_mcap_file_breaks_the_reader():
    fuzzing.check_mcap(EXAMPLES // 2)


def test_the_undamaged_files_are_read():
    for ending in (".csv", ".csv.gz", ".npz"):
        assert fuzzing.check_contents(fuzzing.written(fuzzing.small_recording(), ending), ending) is not None
