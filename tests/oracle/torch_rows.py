"""Cases for the rows of the table of ops (tests/support/ops_table.cpp), each of which has its formula in PyTorch."""
import json
import sys

import torch
import torch.nn.functional as F


def inputs_of(row, shapes):
    if row["low"] == row["high"]:
        return [torch.randn(tuple(shape), dtype=torch.float64) for shape in shapes]
    return [torch.empty(tuple(shape), dtype=torch.float64).uniform_(row["low"], row["high"]) for shape in shapes]


def row_cases(case):
    """Calls case for each row that check_cases --rows prints: the argument after --rows."""
    for row in json.loads(sys.argv[sys.argv.index("--rows") + 1]):
        function = eval("lambda *x: " + row["torch"], {"torch": torch, "F": F})
        for shapes in row["shapes"]:
            case(row["op"], inputs_of(row, shapes), function)
