"""What the user is told of a training that goes on from a checkpoint."""

from __future__ import annotations

from corpusfit.engine import Progress
from corpusfit.pipeline.progress import TrainingProgress


class Listening(Progress):
    """Keeps what is said, and how far the bar is."""

    def __init__(self):
        self.notes, self.done = [], 0

    def advance(self, done, units=0):
        self.done += done

    def note(self, message):
        self.notes.append(message)


def test_a_resumed_training_is_compared_with_its_own_beginning():
    """Closed form: 3.0 before the first step, 2.25 now."""
    heard = Listening()
    voice = TrainingProgress(heard, 2_000)
    history = [
        {"step": 0, "heldout": {"task": 3.0}},
        {"step": 1_000, "loss": 2.75, "rate": 1e-4},
        {"step": 1_000, "heldout": {"task": 2.5}},
    ]
    voice.resume(1_200, history)
    voice.step(1, 64)
    voice.record({"step": 2_000, "loss": 2.5, "rate": 0.0})
    voice.record({"step": 2_000, "heldout": {"task": 2.25}})
    assert heard.done == 1_201
    assert heard.notes == [
        "Goes on after step 1,200 of 2,000.",
        "Step 2,000 of 2,000: training loss 2.500; held-out loss task 2.250 (-0.750)",
    ]


def test_a_resumed_training_of_which_nothing_is_held_out():
    heard = Listening()
    TrainingProgress(heard, 20).resume(3, [{"step": 1, "loss": 2.75, "rate": 1e-4}])
    assert (heard.done, heard.notes) == (3, ["Goes on after step 3 of 20."])
