"""Stand-in while methods move to `types`."""

from corpusfit.types import buffers, text_array

as_texts = text_array

__all__ = ["as_texts", "buffers"]
