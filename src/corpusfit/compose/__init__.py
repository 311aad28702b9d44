"""Stage 6, mix: a corpus of several languages from specific and general text.

`recipe` says what goes in, `languages` knows their codes and tells them apart, `clean` makes
sentences of a document, `budget` how much of each language is taken, `taking` which documents, and
`summary` what came of it.
"""
