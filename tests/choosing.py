"""What `choose` decides of parts in memory, in runs of two parts."""

from corpusfit.selection.choosing import choose


def choices(parts, plan, **options):
    runs = [parts[i : i + 2] for i in range(0, len(parts), 2)] or [[]]
    decision = choose(lambda step: [step(*r) for r in enumerate(runs)], plan, **options)
    for number, run in enumerate(runs):
        yield from decision.of_run(number).choices(0, run)
