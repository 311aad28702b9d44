"""Random numbers from a seed."""

import pytest

torch = pytest.importorskip("torch")

from corpusfit.embed.hardware import seed_generators, seeded  # noqa: E402


def test_the_numbers_are_those_of_torchs_own_seed():
    seed_generators(7)
    ours = torch.rand(5)
    torch.manual_seed(7)
    assert torch.equal(ours, torch.rand(5))


def test_the_state_before_comes_back():
    torch.manual_seed(7)
    torch.rand(3)
    before = torch.get_rng_state()
    with seeded(1):
        torch.rand(5)
    assert torch.equal(before, torch.get_rng_state())
