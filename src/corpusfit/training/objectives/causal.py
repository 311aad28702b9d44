"""Causal language modelling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corpusfit.training.batches import PADDING, TokenRows
from corpusfit.training.objectives.contract import Aim, Keys, RowObjective


@dataclass(frozen=True, eq=False)
class Causal(RowObjective):
    """Causal language modelling: each token is predicted from those before it in its chunk."""

    def _aim(self, token_rows: TokenRows, keys: Keys) -> Aim:
        has_next = np.zeros(token_rows.ids.shape, np.bool_)
        same = token_rows.chunk[:, 1:] == token_rows.chunk[:, :-1]
        has_next[:, :-1] = same & (token_rows.chunk[:, 1:] != PADDING)
        places = np.flatnonzero(has_next)
        return token_rows.ids, places, token_rows.ids.reshape(-1)[places + 1]
