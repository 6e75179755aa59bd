"""One pass over a recording says what numpy says of the whole."""

import numpy as np
import pytest

from steelyard import Recording
from steelyard.inspection.channel_spectra import estimate_channel_spectra
from steelyard.inspection.entry_checks import check_clock, check_columns
from steelyard.inspection.survey import BINS, survey_clock, survey_recording

RNG = np.random.default_rng(5)
TIME = np.arange(40_000) / 500.0


def recording(**columns):
    return Recording(TIME, {name.replace("__", "."): values for name, values in columns.items()})


def noisy(scale=1.0):
    return scale * RNG.standard_normal(len(TIME))


@pytest.mark.parametrize("chunk", [None, 777])
def test_tallies_are_those_of_the_whole(monkeypatch, chunk):
    values = 1e6 + 1e-3 * noisy()
    holes = np.where(RNG.uniform(size=len(TIME)) < 0.3, np.nan, noisy())
    holes[10_000:10_500] = np.nan
    given = recording(q__a=values, left__fx=holes)
    if chunk:
        whole = Recording.chunks
        monkeypatch.setattr(Recording, "chunks", lambda self: whole(self, chunk))
    survey = survey_recording(given)
    for name, column in given.values.items():
        found = survey.columns[name]
        assert found.count == np.isfinite(column).sum()
        assert found.mean == pytest.approx(np.nanmean(column), rel=1e-12, abs=1e-9)
        assert found.spread == pytest.approx(np.nanstd(column), rel=1e-6)
        assert (found.low, found.high) == (np.nanmin(column), np.nanmax(column))
        assert column[np.searchsorted(TIME, found.high_time)] == found.high
    times = TIME[np.isfinite(holes)]
    longest = np.argmax(np.diff(times))
    assert survey.columns["left.fx"].silence == pytest.approx(np.diff(times)[longest])
    assert survey.columns["left.fx"].silence_start == pytest.approx(times[longest])
    assert np.nanmin(survey.lows["q.a"]) == values.min()
    assert survey.highs["q.a"].shape == (BINS,)
    np.testing.assert_allclose(survey.activity[0], np.var(values[:5000]), rtol=1e-6)


@pytest.mark.parametrize("chunk", [7, 1000, 100_000])
def test_a_frozen_sensor_is_found(monkeypatch, chunk):
    columns = {f"pelvis__gyro__{axis}": noisy() for axis in "xyz"}
    for values in columns.values():
        values[20_000:20_300] = values[20_000]
    columns["pelvis__gyro__x"][30_000:32_000] = 0.0  # one axis alone may stand still
    whole = Recording.chunks
    monkeypatch.setattr(Recording, "chunks", lambda self: whole(self, chunk))
    survey = survey_recording(recording(**columns))
    freeze = survey.freezes["pelvis.gyro"]
    assert freeze.start == pytest.approx(TIME[20_000])
    assert freeze.length == pytest.approx(TIME[299])
    assert [finding.code for finding in check_columns(survey)] == ["frozen"]


def test_gaps_and_jitter_of_the_clock():
    time = np.delete(TIME, slice(1000, 1100))
    clock = survey_clock(time)
    assert clock.rate == pytest.approx(500.0)
    assert clock.gaps == ((pytest.approx(TIME[999]), pytest.approx(101 / 500.0)),)
    assert clock.jitter == pytest.approx(0.0, abs=1e-9)
    shaken = survey_clock(TIME + RNG.uniform(-0.0009, 0.0009, len(TIME)))
    assert shaken.jitter == pytest.approx(0.0009 * np.sqrt(2.0 / 3.0), rel=0.02)


def test_findings_say_when():
    values = noisy()
    values[5000:5200] = np.nan
    time = np.delete(TIME, slice(1000, 1100))
    given = Recording(time, {"left.fx": np.delete(values, slice(1000, 1100)), "left.fy": np.zeros(len(time))})
    survey = survey_recording(given)
    gap, *_ = check_clock(survey)
    assert gap.time == pytest.approx(TIME[999])
    found = {finding.code: finding for finding in check_columns(survey)}
    assert set(found) == {"constant", "silent"}
    assert found["silent"].time == pytest.approx(TIME[4999])
    assert "left.fy never changes (always 0)" in found["constant"].words


def test_the_noise_floor_and_the_band():
    smooth = np.zeros(len(TIME))
    for frequency in np.arange(0.25, 20.0, 0.25):
        smooth += np.sin(2.0 * np.pi * frequency * TIME + frequency**2)
    slow = np.where(np.arange(len(TIME)) % 5 == 0, noisy(3.0), np.nan)
    spectra = estimate_channel_spectra([recording(a__fx=smooth + noisy(0.2), b__fx=slow)])
    assert spectra["a.fx"].noise == pytest.approx(0.2, rel=0.1)
    assert spectra["a.fx"].band == pytest.approx(20.0, abs=1.5)
    assert spectra["b.fx"].rate == 100.0
    assert spectra["b.fx"].noise == pytest.approx(3.0, rel=0.15)
    assert spectra["b.fx"].band == 0.0
