"""Estimates in files: everything comes back, and nothing odd gets in."""

import json
from dataclasses import replace

import numpy as np
import pytest

import steelyard
from steelyard import IdentifiabilityError, gather_evidence, identify, load_estimate, load_evidence, load_model
from tests.identification.worlds import reference, rich_motion, with_noise


@pytest.fixture(scope="module")
def estimate():
    model = reference("icub")
    evidence = gather_evidence(model, with_noise(rich_motion("icub"), 1), nuisance=["wrench_offset"])
    return identify(model, evidence, mirror=True)


def test_everything_comes_back(estimate, tmp_path):
    estimate.save(tmp_path / "icub.json")
    again = load_estimate(tmp_path / "icub.json")
    for name in ("parameters", "reference", "determined"):
        np.testing.assert_array_equal(getattr(again, name), getattr(estimate, name))
    np.testing.assert_array_equal(again.base.values, estimate.base.values)
    # Large matrices are stored in single precision.
    large = [(again, estimate, "covariance"), (again, estimate, "noise_covariance")]
    large += [(again.base, estimate.base, name) for name in ("standard_errors", "correlation", "groupings")]
    for one, other, name in (*large, (again.posterior, estimate.posterior, "data_root")):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=2e-6, atol=1e-12, err_msg=name)
    assert (tmp_path / "icub.json").stat().st_size < 1.2e6
    for name in ("method", "status", "active", "nuisance", "fit", "mass_scale", "notes", "key", "origins", "options"):
        assert getattr(again, name) == getattr(estimate, name)
    assert again.certificate == estimate.certificate
    for name, value in estimate.posterior.to_dict().items():
        assert name == "data_root" or again.posterior.to_dict()[name] == value, name
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "icub.json").read_bytes()
    assert again.summary() == estimate.summary()
    assert again.provenance == estimate.provenance
    assert again.sensing == estimate.sensing
    assert again.model.tree.sha256 == estimate.model.tree.sha256
    assert again.model.setup.wrench_sensors == estimate.model.setup.wrench_sensors
    assert again.model.setup.mirror == estimate.model.setup.mirror


def test_a_loaded_estimate_keeps_the_version_that_made_it(estimate, tmp_path, monkeypatch):
    estimate.save(tmp_path / "icub.json")
    monkeypatch.setattr(steelyard, "__version__", "99.0")
    again = load_estimate(tmp_path / "icub.json")
    assert again.provenance == estimate.provenance
    assert again.version == estimate.version != "99.0"
    again.save(tmp_path / "again.json")
    assert load_estimate(tmp_path / "again.json").version == estimate.version


def test_the_corrected_model_is_written_and_read(estimate, tmp_path):
    model = reference("g1")
    small = identify(model, gather_evidence(model, with_noise(rich_motion("g1"), 2), nuisance=()), parameters=["*.m"])
    small.write_model(tmp_path / "g1.urdf")
    again = load_model(tmp_path / "g1.urdf", setup="g1")
    np.testing.assert_allclose(again.parameters, small.parameters, rtol=0.0, atol=1e-12)


def test_it_is_plain_json_without_odd_numbers(estimate, tmp_path):
    estimate.save(tmp_path / "icub.json")

    def refuse(name):
        raise AssertionError(name)

    stored = json.loads((tmp_path / "icub.json").read_text(), parse_constant=refuse)
    assert stored["links"] == list(estimate.model.links)
    assert stored["provenance"]["model"]["sha256"] == estimate.model.description.file.sha256


def test_odd_files_are_refused(estimate, tmp_path):
    path = tmp_path / "odd.json"
    with pytest.raises(IdentifiabilityError, match="no such file"):
        load_estimate(path)
    path.write_text("{")
    with pytest.raises(IdentifiabilityError, match="no JSON"):
        load_estimate(path)
    path.write_text("[1, 2]")
    with pytest.raises(IdentifiabilityError, match="not an estimate"):
        load_estimate(path)
    path.write_text(json.dumps({"format": 99}))
    with pytest.raises(IdentifiabilityError, match="layout 99"):
        load_estimate(path)
    stored = estimate.to_dict()
    del stored["fit"]
    path.write_text(json.dumps(stored))
    with pytest.raises(IdentifiabilityError, match="not a whole estimate"):
        load_estimate(path)
    stored = estimate.to_dict()
    stored["model"]["text"] = '<!DOCTYPE x [<!ENTITY a "b">]><robot name="&a;"/>'
    path.write_text(json.dumps(stored))
    with pytest.raises(IdentifiabilityError, match="cannot be rebuilt"):
        load_estimate(path)
    for name, value in (("status", "great"), ("links", []), ("parameters", [[1.0]]), ("notes", None)):
        path.write_text(json.dumps({**estimate.to_dict(), name: value}))
        with pytest.raises(IdentifiabilityError, match="not a whole estimate"):
            load_estimate(path)
    stored = estimate.to_dict()
    stored["model"]["text"] = stored["model"]["text"].replace("</robot>", "<include/></robot>")
    path.write_text(json.dumps(stored))
    with pytest.raises(IdentifiabilityError, match="was changed"):
        load_estimate(path)
    path.write_text('{"format": ' + "1" * 5000 + "}")
    with pytest.raises(IdentifiabilityError, match="JSON"):
        load_estimate(path)
    with pytest.raises(IdentifiabilityError, match="not finite"):
        replace(estimate, mass_scale=float("nan")).save(path)
    with pytest.raises(IdentifiabilityError, match="cannot be written"):
        estimate.save(tmp_path / "nowhere" / "e.json")
    assert not list(tmp_path.glob("*.part"))


def test_evidence_keeps_what_notes_are_made_of(tmp_path):
    model = reference("g1")
    evidence = gather_evidence(model, rich_motion("g1"), nuisance=())
    evidence.save(tmp_path / "e.npz")
    again = load_evidence(tmp_path / "e.npz")
    assert again.totals == evidence.totals
    assert again.travel == evidence.travel
    assert again.origins == evidence.origins
    assert identify(model, again).notes == identify(model, evidence).notes
    motion = rich_motion("g1")
    force = motion.wrenches["left_foot"][:, 2]
    assert np.isclose(evidence.loads["left_foot.fz"][0], force.mean())
    assert np.isclose(evidence.loads["left_foot.fz"][1], np.sqrt(np.mean(force**2)))
    both = gather_evidence(model, motion.between(0, 120), nuisance=()) + gather_evidence(
        model, motion.between(120, 300), nuisance=()
    )
    assert np.allclose(list(both.loads.values()), list(evidence.loads.values()))
    assert both.travel == evidence.travel
