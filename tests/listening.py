"""What a command tells, kept; and a training that is stopped."""

from corpusfit.core.engine import Progress


class Listening(Progress):
    """Keeps the stages that began, the notes and the warnings."""

    def __init__(self):
        self.stages, self.notes, self.warnings = [], [], []

    def begin(self, stage, total, unit="units"):
        self.stages.append(stage)

    def note(self, message):
        self.notes.append(message)

    def warn(self, message):
        self.warnings.append(message)


class StoppingTraining(Listening):
    """Stops after so many training steps, of all phases."""

    def __init__(self, after=None):
        super().__init__()
        self.after, self.made = after, 0

    def advance(self, done, units=0):
        self.made += self.stages[-1] == "adapt" and bool(units)  # a measurement has no tokens
        if self.made == self.after:
            raise InterruptedError
