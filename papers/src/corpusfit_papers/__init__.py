"""The systems, baselines and tables of five papers: methods and commands of corpusfit.

import corpusfit_papers

ran = corpusfit_papers.run("papers/recipes/tadpole_table3_cpu.toml", out="table3/")
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
