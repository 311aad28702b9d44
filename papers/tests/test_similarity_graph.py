"""PageRank against networkx."""

import networkx as nx
import numpy as np
import pytest

from corpusfit_papers.neighbors import pagerank, symmetric


def graph(n, edges):
    """Of (first, second, weight), for the kernels and for networkx."""
    columns = zip(*edges, strict=True) if edges else ([], [], [])
    first, second, weight = (
        np.array(c, t) for c, t in zip(columns, (np.int32, np.int32, np.float64), strict=True)
    )
    peer = nx.Graph()
    peer.add_nodes_from(range(n))
    peer.add_weighted_edges_from(edges)
    return symmetric(first, second, weight, n), peer


def ranks(peer, **settings):
    found = nx.pagerank(peer, **settings)
    return np.array([found[node] for node in range(len(peer))])


def drawn(seed, n, p):
    rng = np.random.default_rng(seed)
    i, j = np.triu_indices(n, 1)
    kept = rng.random(len(i)) < p
    i, j = i[kept].tolist(), j[kept].tolist()
    return list(zip(i, j, (rng.random(len(i)) + 0.01).tolist(), strict=True))


CASES = {
    "one node": (1, []),
    "no edges": (5, []),
    "one pair": (2, [(0, 1, 0.3)]),
    "a star and nodes alone": (7, [(0, 1, 1.0), (0, 2, 0.5), (0, 4, 0.1)]),
    "several components": (9, [(0, 1, 1.0), (1, 2, 0.2), (4, 3, 0.7), (8, 6, 1.0), (6, 7, 2.0)]),
    "sparse": (200, drawn(0, 200, 0.005)),
    "dense": (60, drawn(1, 60, 0.5)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("tolerance", [1e-6, 1e-12])
def test_as_networkx(name, tolerance):
    ours, peer = graph(*CASES[name])
    found = pagerank(*ours, 0.85, tolerance, 1000)
    want = ranks(peer, alpha=0.85, tol=tolerance, max_iter=1000)
    np.testing.assert_allclose(found, want, rtol=1e-9)
    assert found.sum() == pytest.approx(1.0)


def test_damping_is_heeded():
    ours, peer = graph(*CASES["sparse"])
    found = pagerank(*ours, 0.5, 1e-12, 1000)
    np.testing.assert_allclose(found, ranks(peer, alpha=0.5, tol=1e-12), rtol=1e-9)


def test_it_stops_after_the_most_iterations():
    ours, _ = graph(*CASES["a star and nodes alone"])
    assert (pagerank(*ours, 0.85, 1e-12, 0) == 1 / 7).all()
    once = pagerank(*ours, 0.85, 1e-12, 1)
    assert once[1] == pytest.approx((0.15 + 0.85 * 3 / 7 + 0.85 / 1.6) / 7)  # 3 nodes are alone


def test_no_nodes():
    ours, _ = graph(0, [])
    assert pagerank(*ours, 0.85, 1e-6, 100).shape == (0,)


def test_a_pair_is_in_the_rows_of_both():
    ends, nodes, weights = graph(3, [(2, 0, 0.5), (0, 1, 0.25)])[0]
    assert ends.tolist() == [0, 2, 3, 4]
    assert nodes.tolist() == [2, 1, 0, 0]
    assert weights.tolist() == [0.5, 0.25, 0.25, 0.5]
