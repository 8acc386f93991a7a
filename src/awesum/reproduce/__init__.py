"""Reproducing the paper: every row of a table trained, written, scored, and printed beside the paper's numbers.

`plan` says what is to be done, `run` does it, `row` is the process that trains and writes one row, `table` shows what
came of it. The paper's numbers are in `paper.yaml` and nowhere else.
"""
