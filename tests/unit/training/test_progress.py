"""The messages of a training that resumes from a checkpoint."""

from corpusfit.core.engine import Progress
from corpusfit.training.phases import TrainingProgress


class Listener(Progress):
    """Collects messages, and how far the bar is."""

    def __init__(self):
        self.notes, self.done = [], 0

    def advance(self, done, units=0):
        self.done += done

    def skip(self, done):
        self.done += done

    def note(self, message):
        self.notes.append(message)


def test_losses_of_a_resumed_training_are_compared_with_its_first_step():
    """Closed form: 3.0 before the first step, 2.25 now."""
    listener = Listener()
    callback = TrainingProgress(listener, 2_000)
    history = [
        {"step": 0, "heldout": {"task": 3.0}},
        {"step": 1_000, "loss": 2.75, "learning_rate": 1e-4},
        {"step": 1_000, "heldout": {"task": 2.5}},
    ]
    callback.resume(1_200, history)
    callback.step(1, 64)
    callback.record({"step": 2_000, "loss": 2.5, "learning_rate": 0.0})
    callback.record({"step": 2_000, "heldout": {"task": 2.25}})
    assert listener.done == 1_201
    resumed, measured = listener.notes
    assert "1,200 of 2,000" in resumed
    assert "2,000 of 2,000" in measured
    for figure in ("2.500", "task 2.250", "-0.750"):
        assert figure in measured


def test_a_resumed_training_without_held_out_text():
    listener = Listener()
    TrainingProgress(listener, 20).resume(3, [{"step": 1, "loss": 2.75, "learning_rate": 1e-4}])
    assert listener.done == 3
    (resumed,) = listener.notes
    assert "3 of 20" in resumed
