"""Texts of models in tests: writing them, sending them through a translation at every cut, checking what a client gets.

`exchange.py` sends texts through a translation, `checks.py` asserts what is read, `dialect_writers.py` writes calls in
the dialects, `text_and_calls.py` mixes text with native calls, `sample_cases.py` reads the sample cases, and
`prompted_reader.py` parses the prompted form.
"""
