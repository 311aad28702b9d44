"""`corpusfit baselines` and `outliers`: the clusters of a corpus against its known domains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from corpusfit.contracts import command, table

if TYPE_CHECKING:
    from corpusfit_papers.baselines import Baselines
    from corpusfit_papers.outliers import Outliers, Traits

_MAX_CHARACTERS = 100


@command(machine=())
def baselines(result: Baselines) -> None:
    """Compare the clusters of a corpus with baselines.

    Example:
      corpusfit baselines domains/

    Clusters the same units at random, by LDA topics and by averaged vectors of word2vec, both
    trained on these units. Prints the purity by their known domains. Writes nothing.

    Options:
        DIR: Folder or URL of a `corpusfit clusters` run
    """
    rows = [
        [
            row.of,
            str(row.k),
            f"{row.purity:.3f}",
            "–" if row.deviation is None else f"{row.deviation:.3f}",
            "–" if row.likelihood is None else f"{row.likelihood:.2f}",
            "–" if row.bic is None else f"{row.bic:,.0f}",
        ]
        for row in result.rows
    ]
    columns = ["model", "k", "purity", "± sd", "log-likelihood (nats per unit)", "BIC"]
    table(f"Clusterings of {result.units:,} units", columns, rows)


@command(machine=())
def outliers(result: Outliers) -> None:
    """Describe the texts in clusters of other domains.

    Example:
      corpusfit outliers domains/

    A unit counts as of the domain that most units of its cluster are of. Prints how long the units
    are that are of another one, and how many have numbers, pronouns (English) or question marks,
    and the domains that they count as. Writes nothing.

    Options:
        DIR: Folder or URL of a `corpusfit clusters` run
    """
    lines = {"all": result.all, "in a cluster of another domain": result.outliers}
    lines |= {f"in one of {name}": traits for name, traits in result.attracted.items()}
    columns = ["units", "texts", "words", "numbers", "pronouns", "questions"]
    columns += ["pronouns or questions"]
    rows = [[name, *_traits(traits)] for name, traits in lines.items()]
    table("Traits: mean number of words, and shares of the texts", columns, rows)
    pairs = [
        [
            pair.domain,
            pair.taken_for,
            f"{pair.texts:,}",
            " ".join(pair.example.split())[:_MAX_CHARACTERS],
        ]
        for pair in result.pairs
    ]
    columns = ["domain", "taken for", "texts", "example"]
    words = ["taken for", "example"]
    table("Texts in a cluster of another domain", columns, pairs, words=words)


def _traits(traits: Traits) -> list[str]:
    shares = (traits.numbers, traits.pronouns, traits.questions, traits.pronouns_or_questions)
    return [f"{traits.texts:,}", f"{traits.words:.1f}", *(f"{share:.3f}" for share in shares)]
