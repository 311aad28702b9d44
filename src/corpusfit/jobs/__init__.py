"""What a worker does: one file a job, each a few stages in a row over one piece of work.

Jobs know the stages; the stages do not know each other. `pipeline.py` says in which order jobs run.
"""
