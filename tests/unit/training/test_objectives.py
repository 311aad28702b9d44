"""Losses against the models' own losses; packing, splitting into micro-batches, and drawing."""

import dataclasses
import itertools

import numpy as np
import pytest

from adapting import LENGTH, MARKS, chains, model_of, stored, training_of
from corpusfit.embed.prediction import Predictor
from corpusfit.kernels.chance import place_keys
from corpusfit.training.batches import (
    ChunkTokens,
    Feed,
    MicroBatch,
    Passes,
    drawn_counts,
    lay_pairs,
)
from corpusfit.training.chunks import cut_chunks
from corpusfit.training.contract import Network
from corpusfit.training.objectives import objective
from corpusfit.training.plan import ObjectivePlan
from corpusfit.training.trainer import TrainingListener, TrainingLoop

torch = pytest.importorskip("torch")
NAMES = ["mlm", "mlm+nsp", "causal"]


def gradients(model):
    """All gradients as one float64 vector; they are reset."""
    found = [p.grad.double().flatten() for p in model.parameters() if p.grad is not None]
    model.zero_grad(set_to_none=True)
    return torch.cat(found)


def apart(some, other):
    """Norm of the difference relative to the norm of `other`."""
    return float((some - other).norm() / other.norm())


def own_loss(model, name, micro):
    """transformers' own loss of a micro-batch, from labels and all logits."""
    labels = torch.full_like(micro.ids, -100)
    attention = (micro.chunk >= 0).long()
    if name == "causal":
        labels[attention == 1] = micro.ids[attention == 1]  # shifted by the model itself
        return model(input_ids=micro.ids, attention_mask=attention, labels=labels).loss
    labels.view(-1)[micro.at] = micro.labels
    inputs = {"input_ids": micro.ids, "attention_mask": attention, "labels": labels}
    if name == "mlm+nsp":
        inputs |= {"token_type_ids": micro.kind, "next_sentence_label": micro.follows}
    return model(**inputs).loss


def first_batch(work):
    """A loop before its first step, and the first batch."""
    loop = TrainingLoop(work, TrainingListener())
    return loop, loop.batch(Feed(work.passes), 0)


@pytest.mark.parametrize("name", NAMES)
def test_with_equal_weights_a_steps_loss_is_the_models_own(tmp_path, name):
    """Weights that are all 0.3; transformers computes loss and gradient from `labels`."""
    work = training_of(tmp_path, name, weights=[0.3] * 60, pack=False, micro_rows=99, batch=12)
    assert work.network.predictor.hooked
    model = work.network.predictor.model
    loop, batch = first_batch(work)
    (micro,) = batch.micros
    assert len(micro.at) > 20
    mine, expected = loop.gradient(batch), own_loss(model, name, micro)
    of_mine = gradients(model)
    assert float(mine) == pytest.approx(float(expected.detach()), abs=1e-6)
    expected.backward()
    assert apart(of_mine, gradients(model)) < 1e-5
    if name == "mlm+nsp":
        assert 0 < micro.follows.sum() < 12


@pytest.mark.parametrize("name", NAMES)
def test_a_weight_multiplies_the_loss_of_its_texts(tmp_path, name):
    """The model's own losses row by row, each times its text's weight over the mean."""
    weights = np.linspace(0, 2, 60)
    work = training_of(
        tmp_path,
        name,
        texts=[text for text in chains(400) if len(text) > 9][:60],
        weights=weights,
        objective_plan=ObjectivePlan(name, mask=0.5),
        pack=False,
        micro_rows=3,
        batch=6,
    )
    model = work.network.predictor.model
    loop, batch = first_batch(work)
    rows = [
        work.objective.micro_batch(work.chunk_tokens, [row], key)
        for row, key in each_row(work, batch)
    ]
    total = sum(len(m.at) for m in rows)
    expected = 0.0
    for row, micro in zip(batch.rows, rows, strict=True):
        chunk = work.passes.chunks
        weight = weights[chunk.text[row[0]]] * chunk.length.sum() / (chunk.weight @ chunk.length)
        assert len(micro.at)  # otherwise its own loss is 0 / 0
        own = float(own_loss(model, name, micro).detach())
        if name == "mlm+nsp":
            kind = model(micro.ids, (micro.chunk >= 0).long(), micro.kind).seq_relationship_logits
            of_pair = float(torch.nn.functional.cross_entropy(kind, micro.follows).detach())
            expected += weight * of_pair / len(rows)
            own -= of_pair
        expected += weight * own * len(micro.at) / total
    assert float(loop.gradient(batch)) == pytest.approx(expected, rel=1e-5)


def each_row(work, batch):
    keys = place_keys(work.seed, 0, len(batch.rows))
    return [(row, keys[i : i + 1]) for i, row in enumerate(batch.rows)]


def one_a_row(micro):
    """The same chunks with the same masks and labels, each padded in its own row."""
    r, width = micro.ids.shape
    label = torch.full((r * width,), -1)
    label[micro.at] = micro.labels
    scale = torch.zeros(r * width)
    scale[micro.at] = micro.scale
    pieces = [
        torch.nonzero(micro.chunk[row] == c)[:, 0] + row * width
        for row in range(r)
        for c in micro.chunk[row].unique().tolist()
        if c >= 0
    ]
    longest = max(map(len, pieces))
    ids = torch.zeros((len(pieces), longest), dtype=torch.long)
    chunk, at, labels, scales = torch.full_like(ids, -1), [], [], []
    for i, places in enumerate(pieces):
        ids[i, : len(places)] = micro.ids.view(-1)[places]
        chunk[i, : len(places)] = 0
        of = label[places] >= 0
        at.append(torch.nonzero(of)[:, 0] + i * longest)
        labels.append(label[places][of])
        scales.append(scale[places][of])
    found = map(torch.cat, (at, labels, scales))
    return MicroBatch(ids, chunk, torch.zeros_like(ids), *found, micro.follows, scale[:0])


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("name", ["mlm", "causal"])
def test_gradients_through_packed_rows_are_those_of_padded_ones(tmp_path, name, attention):
    """Against the same model on rows of one chunk with a plain padding mask."""
    work = training_of(
        tmp_path,
        name,
        weights=np.linspace(0, 2, 60),
        micro_rows=99,
        batch=8,
        model=model_of(name, attention=attention),
    )
    model = work.network.predictor.model
    _, batch = first_batch(work)
    (packed,) = batch.micros
    padded = one_a_row(packed)
    assert len(padded.ids) > 12  # of 8 rows
    assert (packed.chunk < 0).any()
    plain = Network(work.network.predictor, model, None, precision="fp32")
    losses = []
    found = []
    for network, micro in ((work.network, packed), (plain, padded)):
        loss, _ = work.objective.losses(network, micro)
        loss.backward()
        losses.append(float(loss.detach()))
        found.append(gradients(model))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert apart(*found) < 1e-5


@pytest.mark.parametrize("name", NAMES)
def test_a_steps_gradient_does_not_depend_on_micro_batches(tmp_path, name):
    """Closed form: the same sum in another order, with unequal counts of predicted tokens."""
    found = {}
    for rows in (16, 2, 1, 5):
        weights = np.linspace(0, 2, 60)
        work = training_of(tmp_path / str(rows), name, weights=weights, micro_rows=rows, batch=16)
        loop, batch = first_batch(work)
        assert len(batch.micros) == -(-16 // rows)
        loss = float(loop.gradient(batch))
        found[rows] = loss, gradients(work.network.predictor.model)
    for loss, gradient in found.values():
        assert loss == pytest.approx(found[16][0], rel=1e-6)
        assert apart(gradient, found[16][1]) < 1e-6


class Drawing:
    """Eight texts of unequal length and weight, one chunk each, and a causal model."""

    def __init__(self, folder, lengths, weights):
        rng = np.random.default_rng(3)
        texts = [rng.integers(5, 40, n).tolist() for n in lengths]
        self.tokens = stored(folder, texts)
        self.aim = objective(ObjectivePlan("causal"), MARKS["causal"])
        self.weights = np.asarray(weights, np.float32)
        self.chunks = cut_chunks(self.tokens.lengths, self.weights, LENGTH)
        assert len(self.chunks) == len(lengths)
        self.model = model_of("causal")
        self.network = Network(Predictor(self.model), self.model, None, precision="fp32")

    def gradient(self, rows, scale):
        """Gradient of the trainer's summed loss of some chunks, and number of predicted tokens."""
        chunk_tokens = ChunkTokens(self.chunks, (self.tokens,), scale, scale)
        keys = place_keys(0, 0, len(rows))
        micro = self.aim.micro_batch(chunk_tokens, [np.array([r]) for r in rows], keys)
        self.aim.losses(self.network, micro)[0].backward()
        return gradients(self.model), len(micro.at)

    def draws(self):
        """Every outcome of a draw and its probability: all intervals of the uniform offset.

        Counts change where a cumulated remainder passes the offset, so they are constant between
        neighboring fractions of these sums.
        """
        w = self.weights.astype(np.float64)
        expected = len(w) * w / w.sum()
        borders = np.cumsum(expected - np.floor(expected)) % 1
        edges = np.unique(np.concatenate([[0, 1], borders]))
        edges = edges[np.diff(edges, prepend=-1) > 1e-12]
        for low, high in itertools.pairwise(edges):
            yield drawn_counts(self.weights, (low + high) / 2), high - low

    def passes(self, draw):
        return Passes(
            self.chunks,
            None,
            0.0,
            length=LENGTH,
            overhead=0,
            resample=draw,
            pack=False,
            batch=8,
            seed=0,
        )


WEIGHTS = [0.9, 0.03, 0.4, 0.0, 0.75, 0.11, 0.5, 0.2]


def test_a_draws_expected_gradient_is_that_of_the_weighted_loss(tmp_path):
    """Enumerates every offset, on texts of unequal length.

    Sums over tokens are exactly equal: the expected sum of the drawn texts' losses is the sum over
    texts of w / mean w times their losses. So is the expected sum over the expected number of
    predicted tokens: the weighted loss with weights over their mean over predicted tokens.
    (`Passes.scale` uses the mean over all tokens, a constant factor near 1 of the whole loss.)

    A single step is not exactly equal: it divides by the tokens drawn in it, and the mean of a
    quotient is not the quotient of the means. With these eight texts of 2 to 32 tokens the two
    gradients differ by 3.7 %; with equal lengths they are equal (below).
    """
    lengths = [2, 32, 9, 17, 25, 4, 13, 30]
    drawing = Drawing(tmp_path, lengths, WEIGHTS)
    everything = np.arange(8)
    plain = np.ones(8, np.float32)
    assert (drawing.passes(draw=True).scale == plain).all()
    total = tokens = quotient = 0.0
    for counts, probability in drawing.draws():
        gradient, predicted = drawing.gradient(np.repeat(everything, counts), plain)
        total = total + probability * gradient
        tokens += probability * predicted
        quotient = quotient + probability * gradient / predicted
    w = drawing.weights.astype(np.float64)
    over_mean, _ = drawing.gradient(everything, (w / w.mean()).astype(np.float32))
    assert apart(total, over_mean) < 1e-5
    scaled = drawing.passes(draw=False)
    # a causal model predicts all tokens of a text but one, so the mean weight is over these
    mean = w @ (np.array(lengths) - 1) / (np.array(lengths) - 1).sum()
    of_trainer = (w / mean).astype(np.float32)
    assert scaled.scale == pytest.approx(w / (w @ lengths / sum(lengths)), rel=1e-6)
    weighted, predicted = drawing.gradient(everything, of_trainer)
    assert apart(total / tokens, weighted / predicted) < 1e-5
    assert 0.01 < apart(quotient, weighted / predicted) < 0.05


def test_pairs_are_halves_of_a_text_or_of_two(tmp_path):
    """Row by row: a true pair joined is its text; otherwise the second half is another text's."""
    texts = chains(40, seed=2, most=29)
    work = training_of(
        tmp_path,
        "mlm+nsp",
        texts=texts,
        batch=40,
        micro_rows=7,
        objective_plan=ObjectivePlan("mlm+nsp", mask=1e-9),
    )
    _, batch = first_batch(work)
    rows = [
        (micro.ids[i][micro.chunk[i] == 0], micro.kind[i], int(micro.follows[i]))
        for micro in batch.micros
        for i in range(len(micro.ids))
    ]
    for row, (ids, kind, other) in zip(batch.rows, rows, strict=True):
        text = texts[work.passes.chunks.text[row[0]]]
        first, second = split_pair(ids.tolist())
        half = len(text) // 2
        assert first == text[:half]
        assert len(second) >= 1
        assert other or second == text[half:][: len(second)]
        assert kind[: len(first) + 2].sum() == 0
        assert kind.sum() == len(second) + 1
        if other:
            ends = [t[len(t) // 2 :] for t in texts if t is not text]
            assert any(end[: len(second)] == second for end in ends)
    assert 8 < sum(other for _, _, other in rows) < 32


def pairs_of(folder, texts, chances, special=MARKS["mlm+nsp"]):
    """Pairs of all chunks of texts: (text, its second half, second text of the pair, label)."""
    tokens = stored(folder, texts)
    weights = np.ones(len(texts), np.float32)
    chunks = cut_chunks(tokens.lengths, weights, LENGTH - 3)
    equal = np.ones(len(chunks), np.float32)
    chunk_tokens = ChunkTokens(chunks, (tokens,), equal, equal)
    rows = [np.array([c]) for c in range(len(chunks))]
    token_rows = lay_pairs(chunk_tokens, rows, special, chances(len(rows)))
    found = []
    for c in range(len(rows)):
        first, second = split_pair(token_rows.ids[c][token_rows.chunk[c] == 0].tolist())
        own = chunk_tokens.ids(c).tolist()
        assert first == own[: len(own) // 2]
        found.append(
            (int(chunks.text[c]), own[len(own) // 2 :], second, int(token_rows.follows[c]))
        )
    return found


def test_a_copy_is_no_text_that_does_not_follow(tmp_path):
    """All other texts are copies of the first; each pair is then its own two halves."""
    texts = [[5, 6, 7, 8, 9, 10]] * 6
    chances = np.random.default_rng(0).random((6, 9))
    for _, half, second, label in pairs_of(tmp_path, texts, lambda _: chances):
        assert (second, label) == (half, 0)


def test_the_length_of_a_pairs_second_text_does_not_reveal_the_label(tmp_path):
    """Closed form: with the same draws, a pair has the same length for both labels.

    So lengths have one distribution for both labels. Some texts have one token only.
    """
    chances = np.random.default_rng(5).random((400, 9))

    def forced(kind):
        return lambda n: np.column_stack([np.full(n, kind), chances[:n, 1:]])

    texts = chains(300, seed=4, most=29)
    true = pairs_of(tmp_path / "true", texts, forced(0.2))
    others = pairs_of(tmp_path / "others", texts, forced(0.7))
    assert {pair[3] for pair in true} == {0}
    assert {pair[3] for pair in others} == {1}
    assert [len(pair[2]) for pair in true] == [len(pair[2]) for pair in others]
    assert {len(pair[2]) for pair in true} >= set(range(1, 13))
    assert 1 in {len(text) for text in texts}
    for _, own, second, _ in true:
        assert second == own[: len(second)]
    assert sum(pair[1] != pair[2] for pair in true) > 100  # cut by the other's length
    assert sum(pair[2] != pair[1][: len(pair[2])] for pair in others) > 280


def test_other_texts_of_a_pair_are_drawn_uniformly(tmp_path):
    """A text of 290 chunks, and 29 texts of one chunk each.

    Closed form: 1 - (290 / 319) ** 8 = 0.53 of the long text's pairs have another text's half, and
    the 29 texts are equally frequent.
    """
    texts = [[5] * (290 * (LENGTH - 3)), *([i] * (LENGTH - 3) for i in range(6, 35))]
    found = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        pairs = pairs_of(
            tmp_path / str(seed),
            texts,
            lambda n, rng=rng: np.column_stack([np.full(n, 0.9), rng.random((n, 8))]),
        )
        found += [pair for pair in pairs if pair[0] == 0]
    assert len(found) == 8 * 290
    for _, own, second, other in found:
        assert (second == own) != other
        assert len(set(second)) == 1
    counts = np.bincount([pair[2][0] for pair in found if pair[3]], minlength=35)
    assert counts[:6].sum() == 0
    share = 1 - (290 / 319) ** 8
    assert counts.sum() / len(found) == pytest.approx(share, abs=0.04)
    expected = counts.sum() / 29
    assert ((counts[6:] - expected) ** 2 / expected).sum() < 58.3  # chi2, 28 degrees: p = 0.0007


def split_pair(ids):
    border = ids.index(3)
    return ids[1:border], ids[border + 1 : -1]


def shares_of_loss(work, steps):
    """float64 [vocabulary]: the weights of all predicted tokens of some steps, by token."""
    loop, feed = TrainingLoop(work, TrainingListener()), Feed(work.passes)
    found = np.zeros(40)
    for step in range(steps):
        for micro in loop.batch(feed, step).micros:
            np.add.at(found, micro.labels.numpy(), micro.scale.numpy())
    return found / found.sum()


@pytest.mark.parametrize("draw", [False, True], ids=["lambda", "resample"])
@pytest.mark.parametrize("name", ["mlm", "mlm+nsp"])
def test_no_loss_falls_on_text_of_weight_zero(tmp_path, name, draw):
    """Equation 1: a tenth of the texts has weight 1, the others 0; text i repeats token 5 + i."""
    texts = [[5 + i] * 20 for i in range(30)]
    weights = np.where(np.arange(30) < 3, 1.0, 0.0)
    half = ObjectivePlan(name, mask=0.5)
    work = training_of(
        tmp_path, name, texts=texts, weights=weights, draw=draw, batch=30, objective_plan=half
    )
    shares = shares_of_loss(work, 40)
    assert shares[8:].sum() == 0
    assert shares[5:8] == pytest.approx(np.full(3, 1 / 3), abs=0.05)


@pytest.mark.parametrize("draw", [False, True], ids=["lambda", "resample"])
def test_a_text_counts_by_its_weight_in_either_half_of_a_pair(tmp_path, draw):
    """Token i of a text's halves is 5 + 2 i and 6 + 2 i; shares against the weights themselves.

    The tolerance is 4.5 standard deviations of the heaviest text's share, 0.067, of which a quarter
    is from about 600 drawn pairs with unequal weights.
    """
    weights = np.linspace(0, 1, 15)
    texts = [[5 + 2 * i] * 10 + [6 + 2 * i] * 10 for i in range(15)]
    half = ObjectivePlan("mlm+nsp", mask=0.5)
    work = training_of(
        tmp_path,
        "mlm+nsp",
        texts=texts,
        weights=weights,
        draw=draw,
        batch=30,
        micro_rows=30,
        objective_plan=half,
    )
    shares = shares_of_loss(work, 300)[5:35].reshape(15, 2)
    assert shares[0].sum() == 0
    expected = weights / weights.sum() / 2
    assert np.abs(shares - expected[:, None]).max() < 0.008


def test_with_equal_lengths_the_mean_loss_of_each_step_is_exact(tmp_path):
    """The same enumeration; every draw predicts the same number of tokens."""
    drawing = Drawing(tmp_path, [20] * 8, WEIGHTS)
    mean = 0.0
    for counts, probability in drawing.draws():
        rows = np.repeat(np.arange(8), counts)
        gradient, predicted = drawing.gradient(rows, np.ones(8, np.float32))
        mean = mean + probability * gradient / predicted
    weighted, predicted = drawing.gradient(np.arange(8), drawing.passes(draw=False).scale)
    assert apart(mean, weighted / predicted) < 1e-5


def test_the_enumeration_covers_every_outcome():
    """A grid of offsets gives the enumerated counts, with the enumerated probabilities."""
    drawing = Drawing.__new__(Drawing)
    drawing.weights = np.array(WEIGHTS, np.float32)
    outcomes = {tuple(counts): p for counts, p in drawing.draws()}
    assert sum(outcomes.values()) == pytest.approx(1)
    assert len(outcomes) > 4
    grid = (np.arange(5_000) + 0.5) / 5_000
    seen = [tuple(drawn_counts(drawing.weights, offset)) for offset in grid]
    for counts, probability in outcomes.items():
        assert seen.count(counts) / 5_000 == pytest.approx(probability, abs=1 / 5_000)


def test_pairs_of_one_token_texts_fit_their_rows(tmp_path):
    """The token is the second text, its own or another's: [CLS] [SEP] token [SEP]."""
    work = training_of(tmp_path, "mlm+nsp", texts=[[7], [8], [9]] * 9, micro_rows=1, batch=27)
    _, batch = first_batch(work)
    for micro in batch.micros:
        ids = micro.ids[0][micro.chunk[0] == 0].tolist()
        assert [ids[0], ids[1], ids[3:]] == [2, 3, [3]]
    assert 0 < sum(int(m.follows[0]) for m in batch.micros) < 27


def test_a_text_alone_gives_true_pairs(tmp_path):
    for _, own, second, other in pairs_of(
        tmp_path, chains(1, seed=8), lambda n: np.ones((n, 9)) * 0.9
    ):
        assert (second, other) == (own, 0)


def test_the_expected_gradient_of_pairs_is_the_same_drawn_or_weighted(tmp_path):
    """Enumerates labels, other texts and counts, against a plain double sum over pairs.

    The plain sum is equation 1 for pairs: half of it a text's own halves times its weight, half
    the pairs of two texts times the product of their weights.
    """
    n, length = 5, 20
    weights = np.array([0.9, 0.0, 0.4, 0.25, 0.45])
    rng = np.random.default_rng(1)
    texts = [rng.integers(5, 40, length).tolist() for _ in range(n)]
    tokens, aim = stored(tmp_path, texts), objective(ObjectivePlan("mlm+nsp"), MARKS["mlm+nsp"])
    chunks = cut_chunks(tokens.lengths, weights.astype(np.float32), LENGTH - 3)
    model = model_of("mlm+nsp")
    network = Network(Predictor(model), model, None, precision="fp32")

    def gradient(rows, factors):
        """Gradient of the losses of rows [first text, label, draw], times a factor each."""
        key = np.repeat(place_keys(0, 0, 1), len(rows))
        first = [np.array([a]) for a, _, _ in rows]
        token_rows = lay_pairs(chunk_tokens, first, aim.special, np.array([r[1:] for r in rows]))
        scale = token_rows.scale * np.asarray(factors, np.float32)[:, None]
        token_rows = dataclasses.replace(token_rows, scale=scale)
        tokens, pairs = aim.losses(
            network, MicroBatch.of(token_rows, *aim._targets(token_rows, key))
        )
        (tokens + pairs).backward()
        return gradients(model)

    equal = np.ones(n, np.float32)
    chunk_tokens = ChunkTokens(chunks, (tokens,), equal, equal)
    # the plain sum: with equal frequencies, draw (b + 1/2) / n is text b
    w = weights / weights.mean()
    pairs = [(a, b) for a in range(n) for b in range(n) if a != b]
    of_pair = [w[a] * w[b] / n / 2 / (1 - w[a] / n) for a, b in pairs]
    own = [(a, 0.2, (b + 0.5) / n) for a, b in pairs]
    mixed = [(a, 0.8, (b + 0.5) / n) for a, b in pairs]
    expected = gradient(own + mixed, of_pair * 2)
    for draw in (False, True):
        passes = Passes(
            chunks,
            None,
            0.0,
            length=LENGTH,
            overhead=3,
            resample=draw,
            pack=False,
            batch=n,
            seed=0,
        )
        chunk_tokens = ChunkTokens(chunks, (tokens,), passes.scale, passes.frequency)
        counts = np.ones(n)
        if draw:
            grid = [drawn_counts(chunks.weight, (k + 0.5) / 1_000) for k in range(1_000)]
            counts = np.mean(grid, axis=0)
        edges = np.concatenate([[0], np.cumsum(w / n)])
        rows, factors = [], []
        for a, label in itertools.product(range(n), (0.2, 0.8)):
            for b in set(np.flatnonzero(w)) - {a}:
                rows.append((a, label, (edges[b] + edges[b + 1]) / 2))
                # the first draw that is not the own text, of as many draws as it takes
                factors.append(counts[a] / 2 * (w[b] / n) / (1 - w[a] / n))
        assert apart(gradient(rows, factors), expected) < 2e-3
