"""Encoding on pretended devices, for tests whose workers import it."""

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from corpusfit.embed import feeding
from corpusfit.embed.feeding import Encode
from corpusfit.selection.embedding import EmbedTexts


@dataclass(frozen=True)
class CountedEncode(Encode):
    """Notes each process that loads the model."""

    notes: Path

    def start(self):
        with open(self.notes, "a") as f:
            f.write(f"{os.getpid()}\n")
        return super().start()


@dataclass(frozen=True)
class CountedEmbed(EmbedTexts):
    """Encodes on two pretended devices, which note that they load the model."""

    notes: Path = Path()

    @property
    def devices(self):
        return lambda: ("cpu", "cpu")

    def start(self):
        feeding.Encode = partial(CountedEncode, notes=self.notes)
        work = super().start()
        return lambda piece: (os.getpid(), *work(piece))
