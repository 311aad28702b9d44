"""Cross-entropy in pieces, against torch's own function."""

import pytest

torch = pytest.importorskip("torch")

from corpusfit.embed import losses as kernels  # noqa: E402
from corpusfit.embed.losses import cross_entropies, head_loss  # noqa: E402

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


def of_a_head(f, dtype, bias, weight_is_trained=True, rows=ROWS):
    """A loss and its gradients for states, weight and bias."""
    rng = torch.Generator().manual_seed(0)
    states = torch.randn(rows, 16, generator=rng).requires_grad_()
    weight = torch.randn(CLASSES, 16, generator=rng).requires_grad_(weight_is_trained)
    added = torch.randn(CLASSES, generator=rng).requires_grad_() if bias else None
    labels = torch.randint(CLASSES, (rows,), generator=rng)
    scale = torch.rand(rows, generator=rng) * (torch.arange(rows) % 3 > 0)  # some rows are off
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
        loss = f(states, weight, added, labels, scale)
    (loss / 7).backward()
    grads = [p.grad for p in (states, weight, added) if p is not None and p.grad is not None]
    return loss.detach(), grads


def by_torch(states, weight, bias, labels, scale):
    logits = torch.nn.functional.linear(states, weight, bias).float()
    return (torch.nn.functional.cross_entropy(logits, labels, reduction="none") * scale).sum()


@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("dtype", "near"), [(torch.float32, 1e-5), (torch.bfloat16, 1e-2)])
def test_the_loss_of_a_head_has_the_gradients_of_torch(dtype, near, bias, trained, monkeypatch):
    """Where its product is made in pieces, the last one shorter."""
    monkeypatch.setattr(kernels, "_LEAST_ROWS", 8)
    monkeypatch.setattr(kernels, "_MOST_LOGITS", 8 * CLASSES)
    loss, gradients = of_a_head(by_torch, dtype, bias, trained)
    ours, mine = of_a_head(head_loss, dtype, bias, trained)

    torch.testing.assert_close(ours, loss, rtol=1e-5, atol=0)
    assert len(mine) == len(gradients) == 1 + trained + bias
    for found, wanted in zip(mine, gradients, strict=True):
        assert found.dtype == wanted.dtype
        assert float((found - wanted).norm() / wanted.norm()) < near


def test_the_loss_of_a_head_without_gradients():
    states, weight = torch.ones(3, 4), torch.eye(5, 4)
    rest = None, torch.tensor([0, 1, 4]), torch.ones(3)
    torch.testing.assert_close(head_loss(states, weight, *rest), by_torch(states, weight, *rest))
