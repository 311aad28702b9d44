"""Adapters: one in each file of this folder, and of other packages."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from corpusfit.core.registry import Registry

if TYPE_CHECKING:
    from corpusfit.training.contract import Adapter

ADAPTERS = Registry("corpusfit.adapters", "corpusfit.training.adapters")


@cache
def load(name: str) -> type[Adapter]:
    """The class of an adapter."""
    from corpusfit.training.contract import Adapter

    adapter: type[Adapter] = ADAPTERS.load(name, Adapter)
    return adapter
