"""Encoding on pretended devices, for tests whose workers import it."""

import os

from corpusfit.embed import feeding
from corpusfit.embed.feeding import Encode
from corpusfit.selection.embedding import EmbedTexts


class CountedEncode(Encode):
    """Notes beside the cache each process that loads the model."""

    def start(self):
        with open(self.cache / "loaded", "a") as f:
            f.write(f"{os.getpid()}\n")
        return super().start()


class CountedEmbed(EmbedTexts):
    """Encodes on two pretended devices, which note that they load the model."""

    @property
    def devices(self):
        return lambda: ("cpu", "cpu")

    def start(self):
        feeding.Encode = CountedEncode
        work = super().start()
        return lambda piece: (os.getpid(), *work(piece))
