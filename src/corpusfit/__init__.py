"""Find the part of a corpus that is like your task, and show that it is.

import corpusfit

run = corpusfit.select(target="task.jsonl", corpus="pile/", out="out/", fraction=0.1)
for segment in run:
    print(segment["score"], segment["source"], segment["text"][:80])
"""

import lazy_loader

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
