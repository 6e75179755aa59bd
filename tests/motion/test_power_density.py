"""Power spectral densities, against SciPy's."""

import numpy as np
import pytest
from scipy.signal import welch

from steelyard.motion import estimate_power_density


@pytest.mark.parametrize("detrend", ["none", "constant", "linear"])
@pytest.mark.parametrize(
    ("count", "segment", "length"), [(1000, 128, None), (1001, 127, 200), (300, 300, 512), (64, 63, 65)]
)
def test_it_is_welchs_estimate(detrend, count, segment, length):
    generator = np.random.default_rng(count)
    values = np.cumsum(generator.normal(size=(count, 3)), axis=0) + 5.0
    given = {"none": False}.get(detrend, detrend)
    frequencies, wanted = welch(values, fs=40.0, nperseg=segment, nfft=length, detrend=given, axis=0)
    found, power = estimate_power_density(values, 40.0, segment, detrend=detrend, length=length)
    np.testing.assert_allclose(found, frequencies, rtol=1e-12)
    np.testing.assert_allclose(power, wanted, rtol=1e-9, atol=1e-12 * wanted.max())
    np.testing.assert_allclose(estimate_power_density(values[:, 1], 40.0, segment, detrend=detrend, length=length)[1],
                               power[:, 1])  # fmt: skip
