"""Files and objects are the same thing written twice."""

from __future__ import annotations

from pathlib import Path

import pytest

import bayeslab as bl

FILES = sorted(Path(__file__).parents[2].glob("models/*.yaml")) + sorted(
    Path(__file__).parents[1].glob("conformance/**/*.yaml")
)


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_save_and_load_round_trip(file, tmp_path):
    model = bl.load(file)
    bl.save(model, tmp_path / "again.yaml")
    again = bl.load(tmp_path / "again.yaml")
    assert again == model
    assert again.digest() == model.digest()
    assert (tmp_path / "again.yaml").read_text().startswith("bayeslab: 1\n")


def test_python_builds_the_same_object(tmp_path):
    (tmp_path / "m.yaml").write_text(
        "bayeslab: 1\nname: m\ndims: {k: [a, 'yes', 'None', 3]}\nmodel:\n  family: graph\n  nodes:\n"
        "    x[k]: Normal(0, 1e-3)\n    w: 3\n    v[k]: [1, 2, 3, 4]\nseed: 4\n"
    )
    nodes = {"x[k]": "Normal(0, 1e-3)", "w": 3, "v[k]": "[1, 2, 3, 4]"}
    built = bl.Model(name="m", dims={"k": ["a", "yes", "None", 3]}, model=bl.Graph(nodes=nodes), seed=4)
    assert bl.load(tmp_path / "m.yaml") == built


def test_the_digest_is_about_the_posterior():
    """Not about names, descriptions or seeds; about nodes, dims and computed columns."""
    nodes = {"a": "Normal(0, 1)"}
    base = bl.Model(model=bl.Graph(nodes=nodes))
    assert bl.Model(name="b", about="c", seed=3, model=bl.Graph(nodes=nodes)).digest() == base.digest()
    assert bl.Model(model=bl.Graph(nodes={"a": "Normal(0, 2)"})).digest() != base.digest()
    assert bl.Model(dims={"k": 2}, model=bl.Graph(nodes=nodes)).digest() != base.digest()


def test_models_are_frozen():
    with pytest.raises(Exception, match="frozen"):
        bl.Model(model=bl.Graph(nodes={"a": "Normal(0, 1)"})).name = "b"


def test_an_interrupted_save_leaves_the_old_file(tmp_path, monkeypatch):
    model, file = bl.Model(model=bl.Graph(nodes={"a": "Normal(0, 1)"})), tmp_path / "m.yaml"
    bl.save(model, file)
    before = file.read_text()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        bl.save(model, file)
    assert file.read_text() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.yaml"]
