"""Tables of results as Markdown, LaTeX, CSV, plain text and JSON records."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from corpusfit.core.escaping import as_csv, in_markdown, one_line
from corpusfit.evaluation.points import POINTS, Mark, cell, points


@dataclass(frozen=True)
class Score:
    """A score or a gain over seeds; every format shows it in points, or the error it negates."""

    mean: float  # mean over seeds, in [0, 1]; a gain can be negative
    sd: float | None = None  # standard deviation over seeds; None with one seed
    mark: Mark = ""  # result of a test against the base model
    best: bool = False  # show in bold
    unit: str = POINTS  # of the error, if the score is a negated one


Cell = Score | str | float | None  # A score, a text, a number, or an empty cell


@dataclass(frozen=True)
class Table:
    """Rows of cells under named columns.

    Reference: TADPOLE, Tables 3 and 6: mean over seeds in points, the deviation as a subscript, the
    best in bold.
    """

    title: str  # title, a sentence
    columns: tuple[str, ...]  # unique names of the columns; the first column names the rows
    rows: tuple[tuple[Cell, ...], ...]  # one cell per column
    notes: tuple[str, ...] = ()  # notes below the table

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError("a row has more or fewer cells than the table has columns")
        if len(set(self.columns)) != len(self.columns):
            raise ValueError("two columns have the same name")


def with_best(table: Table, among: Literal["row", "column"]) -> Table:
    """Mark the best score of each row or column, including ties after rounding."""
    # A single score in its row or column is not marked.
    lines = table.rows if among == "row" else tuple(zip(*table.rows, strict=True))
    marked: list[tuple[Cell, ...]] = []
    for line in lines:
        scores = [round(100 * entry.mean, 2) for entry in line if isinstance(entry, Score)]
        highest = max(scores) if len(scores) > 1 else None
        marked.append(
            tuple(
                dataclasses.replace(entry, best=round(100 * entry.mean, 2) == highest)
                if isinstance(entry, Score)
                else entry
                for entry in line
            )
        )
    rows = marked if among == "row" else zip(*marked, strict=True)
    return dataclasses.replace(table, rows=tuple(rows))


def plain(table: Table) -> list[list[str]]:
    """The rows as text for a terminal, without bold."""
    return [[_plain(entry) for entry in row] for row in table.rows]


def records(table: Table) -> list[dict[str, Any]]:
    """The rows as dictionaries by column, for JSON."""
    # A score becomes a dictionary of `mean` and `sd` (as shown) and `mark`.
    return [
        {
            name: dict(zip(("mean", "sd", "mark"), _in_csv(entry), strict=True))
            if isinstance(entry, Score)
            else entry
            for name, entry in zip(table.columns, row, strict=True)
        }
        for row in table.rows
    ]


def markdown(table: Table) -> str:
    """The table as GitHub Markdown, numbers right-aligned, notes as a list below."""
    heads = [in_markdown(name) for name in table.columns]
    rules = ["---:" if right else "---" for right in _figures(table)]
    body = [[_in_markdown(entry) for entry in row] for row in table.rows]
    lines = [f"**{in_markdown(table.title)}**", ""]
    lines += [f"| {' | '.join(row)} |" for row in (heads, rules, *body)]
    if table.notes:
        lines += ["", *(f"- {in_markdown(note)}" for note in table.notes)]
    return "\n".join(lines) + "\n"


def latex(table: Table) -> str:
    r"""The table as LaTeX with booktabs, notes below the table, for \input."""
    sides = "".join("r" if right else "l" for right in _figures(table))
    body = (" & ".join(_in_latex(entry) for entry in row) + r" \\" for row in table.rows)
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_in_latex(table.title)}}}",
        rf"\begin{{tabular}}{{{sides}}}",
        r"\toprule",
        " & ".join(map(_in_latex, table.columns)) + r" \\",
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        *(rf"\par\smallskip{{\footnotesize {_in_latex(note)}}}" for note in table.notes),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def csv(table: Table) -> str:
    """The table as CSV, without title and notes, and without formulas."""
    # A column with scores becomes three: mean, `sd` (both as shown) and `mark`.
    wide = [any(isinstance(entry, Score) for entry in column) for column in _columns(table)]
    names: list[str] = []
    for name, has_scores in zip(table.columns, wide, strict=True):
        names += [name, f"{name} sd", f"{name} mark"] if has_scores else [name]
    rows = []
    for row in table.rows:
        fields: list[Any] = []
        for entry, has_scores in zip(row, wide, strict=True):
            fields += _in_csv(entry) if has_scores else [entry]
        rows.append(fields)
    return as_csv(names, rows)


def _columns(table: Table) -> list[tuple[Cell, ...]]:
    return [tuple(row[i] for row in table.rows) for i in range(len(table.columns))]


def _figures(table: Table) -> list[bool]:
    """Whether each column holds numbers and no text."""
    return [
        any(entry is not None for entry in column)
        and not any(isinstance(entry, str) for entry in column)
        for column in _columns(table)
    ]


def _plain(entry: Cell) -> str:
    if entry is None:
        return "–"
    if isinstance(entry, str):
        return entry
    if isinstance(entry, int):
        return f"{entry:,}"
    if isinstance(entry, float):  # 2 decimals, or 2 digits if small
        return f"{entry:,.2f}" if entry == 0 or abs(entry) >= 0.1 else f"{entry:.2g}"
    return f"{cell(entry.mean, entry.sd, entry.unit)} {entry.mark}".rstrip()


def _in_csv(entry: Cell) -> list[Any]:
    if not isinstance(entry, Score):
        return [entry, None, None]
    scale, middle = (100, entry.mean) if entry.unit == POINTS else (1, 0.0 - entry.mean)
    sd = None if entry.sd is None else round(scale * entry.sd, 6)
    return [round(scale * middle, 6), sd, entry.mark]


def _in_markdown(entry: Cell) -> str:
    if not isinstance(entry, Score):
        return in_markdown(_plain(entry))
    mean, _, rest = _plain(entry).partition(" ")
    shown = f"**{mean}**" if entry.best else mean
    return f"{shown} {in_markdown(rest)}".rstrip()


_LATEX = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "±": r"$\pm$",
    "†": r"\dag{}",
    **{sign: rf"\{sign}" for sign in "&%$#_{}"},
    **{sign: f"{{{sign}}}" for sign in "[]*"},  # LaTeX would read it as an option of the row's end
}


def _in_latex(entry: Cell) -> str:
    if not isinstance(entry, Score):
        text = "--" if entry is None else one_line(_plain(entry))
        return "".join(_LATEX.get(sign, sign) for sign in text)
    mean = points(entry.mean)
    shown = rf"\mathbf{{{mean}}}" if entry.best else mean
    below = "" if entry.sd is None else f"_{{{points(entry.sd)}}}"
    above = {"": "", "*": "^{*}", "†": r"^{\dagger}"}[entry.mark]
    return f"${shown}{below}{above}$"
