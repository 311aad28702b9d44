"""Cross-entropy in pieces, against torch's own function."""

import pytest

torch = pytest.importorskip("torch")

from corpusfit.embed.prediction import cross_entropies  # noqa: E402

ROWS, CLASSES = 23, 30_522  # three pieces, the last one shorter


def both(dtype, wide=1.0, smoothing=0.0):
    """Losses and gradients of torch's function and ours, with a weight for each row."""
    rng = torch.Generator().manual_seed(0)
    logits = (wide * torch.randn(ROWS, CLASSES, generator=rng)).to(dtype)
    labels = torch.randint(CLASSES, (ROWS,), generator=rng)
    scale = torch.rand(ROWS, generator=rng)
    found = []
    for f in (
        lambda x: torch.nn.functional.cross_entropy(
            x.float(), labels, reduction="none", label_smoothing=smoothing
        ),
        lambda x: cross_entropies(x, labels, smoothing),
    ):
        inputs = logits.clone().requires_grad_()
        losses = f(inputs)
        (losses * scale).sum().backward()
        found.append((losses.detach(), inputs.grad))
    return found


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("wide", [1.0, 100.0])
def test_losses_and_gradients_are_those_of_torch(wide, smoothing):
    (losses, gradient), (ours, mine) = both(torch.float32, wide, smoothing)
    torch.testing.assert_close(ours, losses, rtol=2e-6, atol=2e-6)
    torch.testing.assert_close(mine, gradient, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_bf16_logits_have_float32_losses_and_a_gradient_rounded_once(smoothing):
    (losses, gradient), (ours, mine) = both(torch.bfloat16, smoothing=smoothing)
    assert ours.dtype == torch.float32
    assert mine.dtype == torch.bfloat16
    torch.testing.assert_close(ours, losses, rtol=2e-6, atol=2e-6)
    torch.testing.assert_close(mine.float(), gradient.float(), rtol=2**-7, atol=1e-9)


def test_no_rows_have_no_losses():
    logits = torch.empty(0, 5, requires_grad=True)
    losses = cross_entropies(logits, torch.empty(0, dtype=torch.int64))
    losses.sum().backward()
    assert losses.shape == (0,)
    assert logits.grad is not None
    assert logits.grad.shape == (0, 5)


def test_a_rows_loss_does_not_depend_on_other_rows():
    logits = torch.randn(ROWS, CLASSES, generator=torch.Generator().manual_seed(1))
    labels = torch.arange(ROWS)
    alone = [cross_entropies(logits[i : i + 1], labels[i : i + 1]) for i in range(ROWS)]
    assert torch.equal(cross_entropies(logits, labels), torch.cat(alone))
