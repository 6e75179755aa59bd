"""Hulls and ellipsoids of links are cached: eight threads that ask for more than the caches hold get what one gets."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from steelyard.identification.constraints import com_volumes, matter_ellipsoids

CLOUDS = [np.random.default_rng(seed).standard_normal((12, 3)) for seed in range(300)]


def test_threads_get_the_facets_that_one_thread_gets():
    expected = [com_volumes._make_facets(points) for points in CLOUDS]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(com_volumes._hull_facets, CLOUDS * 2))
    for number, facets in enumerate(found):
        np.testing.assert_array_equal(facets, expected[number % len(CLOUDS)])
    assert len(com_volumes._HULLS) == 256


def test_threads_get_the_ellipsoids_that_one_thread_gets():
    clouds = CLOUDS[:40]
    expected = [matter_ellipsoids._enclosing_ellipsoid(points) for points in clouds]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(matter_ellipsoids.enclosing_ellipsoid, clouds * 4))
    for number, ellipsoid in enumerate(found):
        np.testing.assert_array_equal(ellipsoid.centre, expected[number % len(clouds)].centre)
        np.testing.assert_array_equal(ellipsoid.shape, expected[number % len(clouds)].shape)
