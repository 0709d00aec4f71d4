"""Cases for the rows of the table of ops (tests/support/ops), each of which has its formula in PyTorch."""
import json
import sys

import torch
import torch.nn.functional as F


def inputs_of(row):
    if row["low"] == row["high"]:
        return [torch.randn(tuple(shape), dtype=torch.float64) for shape in row["shapes"]]
    return [torch.empty(tuple(shape), dtype=torch.float64).uniform_(row["low"], row["high"]) for shape in row["shapes"]]


def row_cases(case):
    """Calls case for each row that check_cases --rows printed to the file that is named after --rows."""
    with open(sys.argv[sys.argv.index("--rows") + 1]) as rows:
        for row in json.load(rows):
            function = eval("lambda *x: " + row["torch"], {"torch": torch, "F": F})
            case(row["op"], inputs_of(row), function, case=row["case"])
