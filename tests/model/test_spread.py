"""How far a model may be off: the same for a sound one whatever else is done, and never next to nothing."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard import Model, load_model
from steelyard.model.consistency import is_possible, project_to_interior
from steelyard.model.spread import COM_SPREAD, INERTIA_SPREAD, MASS_SPREAD, model_spread


def by_link(model: Model) -> np.ndarray:
    blocks = model_spread(model).reshape(len(model.links), 10, len(model.links), 10)
    return blocks[np.arange(len(model.links)), :, np.arange(len(model.links))]


@pytest.mark.parametrize("name", ["g1", "talos"])
def test_a_sound_model_is_taken_as_it_is(name: str) -> None:
    model = load_model(name)
    np.testing.assert_array_equal(project_to_interior(model.parameters), model.parameters)
    blocks = by_link(model)
    np.testing.assert_array_equal(blocks[:, :, 0], MASS_SPREAD * model.parameters)
    for number in (4, 6, 9):
        np.testing.assert_allclose(blocks[:, number, number], INERTIA_SPREAD * model.parameters[:, number])


def test_a_link_that_no_body_could_be_may_be_off_as_the_nearest_that_one_could() -> None:
    """ICub has links with inertias of a millionth of what their mass and size need."""
    model = load_model("icub")
    assert not np.all(is_possible(model.parameters))
    possible = model.with_parameters(project_to_interior(model.parameters))
    np.testing.assert_allclose(model_spread(model), model_spread(possible), rtol=1e-12, atol=1e-15)
    blocks = by_link(model)
    floor = INERTIA_SPREAD * model.parameters[:, 0] * 1e-3**2
    for number in (4, 6, 9):
        assert np.all(blocks[:, number, number] > floor)
    assert np.all(blocks[:, [1, 2, 3], [1, 2, 3]] >= COM_SPREAD * model.parameters[:, :1])
    assert np.linalg.matrix_rank(blocks[0]) == 10
