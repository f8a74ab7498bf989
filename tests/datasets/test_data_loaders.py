"""Loaders of real data hold what the files hold, and say where a missing file comes from; street scans are as told."""

from __future__ import annotations

import numpy as np
import pytest

from ssvm_dsl import datasets as data
from ssvm_dsl import read_problem
from ssvm_dsl.errors import DataError
from ssvm_papers.generators import make_street_scans
from ssvm_papers.generators.street import _shape

LOADERS = {
    "load_dependency_treebank": (), "load_alignments": (), "load_atis_grammar": (), "load_horses": (),
    "load_treebank": (),
    "load_stereo": (), "load_grid_map": ("arena",), "load_map_instances": (), "load_bayes_net": ("asia",),
}  # fmt: skip


@pytest.mark.parametrize("name", LOADERS)
def test_a_missing_file_is_named_with_its_origin(name, tmp_path, monkeypatch):
    load = getattr(data, name)
    monkeypatch.delenv("SSVM_DATA", raising=False)
    with pytest.raises(DataError, match=rf"{name}: expected environment variable SSVM_DATA .*\n  hint: .* holds "):
        load(*LOADERS[name])
    monkeypatch.setenv("SSVM_DATA", str(tmp_path))
    with pytest.raises(DataError, match=rf"{name}: expected a file .* in the folder SSVM_DATA"):
        load(*LOADERS[name])


@pytest.fixture
def real(data_dir, monkeypatch):
    monkeypatch.setenv("SSVM_DATA", str(data_dir))


def test_texts(real):
    sentences = data.load_dependency_treebank()
    assert len(sentences) == 3914
    assert all(len(one.words) == len(one.pos) == len(one.heads) for one in sentences)
    assert all(one.heads.min() >= -1 and one.heads.max() < len(one.words) for one in sentences)
    pairs = data.load_alignments()
    assert len(pairs) == 447
    assert pairs[0].sure == {(1, 1), (0, 0)}
    assert all(one.sure <= one.possible for one in pairs)
    assert all(i < len(one.source) and j < len(one.target) for one in pairs for i, j in one.possible)
    grammar = data.load_atis_grammar()
    assert (len(grammar.rules), len(grammar.sentences)) == (5517, 98)
    assert grammar.start in {left for left, _ in grammar.rules}
    trees = data.load_treebank()
    assert len(trees) == 3914
    assert trees[0].words[:2] == ("Pierre", "Vinken")
    assert not any("-NONE-" in tree.tags for tree in trees)


def test_images_and_maps(real):
    images, masks = data.load_horses()
    assert len(images) == len(masks) == 328
    assert all(image.shape[:2] == mask.shape for image, mask in zip(images, masks))
    assert 0.1 < np.mean([mask.mean() for mask in masks]) < 0.4
    left, right, disparity = data.load_stereo()
    assert left.shape == right.shape == (*disparity.shape, 3) == (83, 123, 3)
    free = data.load_grid_map("arena")
    assert free.shape == (49, 49)
    assert not free[0].any()
    assert free[3, 1:-1].all()


def test_instances_and_networks(real):
    found = data.load_map_instances("ad3")
    assert len(found) == 11
    assert all(one.proved and one.path.is_file() for one in found.values())
    assert read_problem(found["grid3x3.uai"].path).program.n_variables == 9
    asia = data.load_bayes_net("asia")
    assert set(asia) == {"asia", "tub", "smoke", "lung", "bronc", "either", "xray", "dysp"}
    assert asia["tub"].parents == ("asia",)
    np.testing.assert_allclose(asia["tub"].table, [[0.05, 0.95], [0.01, 0.99]])
    for name in ("alarm", "child", "insurance", "win95pts", "hailfinder"):
        for node in data.load_bayes_net(name).values():
            np.testing.assert_allclose(node.table.sum(axis=-1), 1.0, atol=1e-3)


def test_street_scans_stand_where_they_should():
    first, second = make_street_scans(2, 300)
    assert not np.array_equal(first.points, second.points)
    (again, _) = make_street_scans(2, 300)
    for one, other in zip(first, again):
        np.testing.assert_array_equal(one, other)
    points, features, edges, labels = first
    assert features.shape == (300, 90)
    assert (edges[:, 0] < edges[:, 1]).all()
    assert len(np.unique(edges, axis=0)) == len(edges)
    np.testing.assert_allclose(features[:, :81].sum(axis=1), 1.0)  # the share of neighbours in each cell
    heights = [points[labels == k, 2].mean() for k in range(4)]
    assert heights[0] < heights[3] < heights[1]
    far = np.linalg.norm(points[edges[:, 0]] - points[edges[:, 1]], axis=1)
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    assert far.max() < np.median(apart)
    assert (labels[edges[:, 0]] == labels[edges[:, 1]]).mean() > 0.6


@pytest.mark.parametrize("along", [(1.0, 0.0, 0.0), (0.0, 0.0, 2.0), (0.3, 0.4, 1.2)])
def test_features_of_points_on_a_line_do_not_depend_on_the_basis_of_eigenvectors(along):
    """Two axes have no spread then, and LAPACK may turn them: on another processor features were other ones."""
    direction = np.array(along)
    points = np.arange(4.0)[:, None] * direction / 10.0
    upright = _shape(points, 0, list(range(4)))[-4]
    assert upright == pytest.approx(np.sqrt(1.0 - (direction[2] / np.linalg.norm(direction)) ** 2), abs=1e-7)
