"""Runs the graphs of a folder (tests/models/onnx_cases.h) with ONNX Runtime, and compares their outputs."""
import glob
import os
import sys

import numpy
import onnxruntime

TYPES = {"tensor(float)": numpy.float32, "tensor(double)": numpy.float64, "tensor(int64)": numpy.int64}


def difference(path):
    """The largest difference of an output, as a share of the largest number, or of 1 if that is less."""
    begin = path[: -len(".onnx")]
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    inputs = {i.name: numpy.load(f"{begin}.{i.name}.in.npy").astype(TYPES[i.type]) for i in session.get_inputs()}
    worst = 0.0
    for output in session.get_outputs():
        expected = numpy.load(f"{begin}.{output.name}.out.npy")
        counts = ~numpy.isnan(expected)
        got = session.run([output.name], inputs)[0].astype(numpy.float64)
        assert got.shape == expected.shape, (path, got.shape, expected.shape)
        scale = max(1.0, numpy.abs(expected[counts]).max())
        worst = max(worst, numpy.abs(got - expected)[counts].max() / scale)
    return worst


onnxruntime.set_default_logger_severity(3)
paths = sorted(glob.glob(os.path.join(sys.argv[1], "*.onnx")))
differences = [difference(path) for path in paths]
assert differences, "there are no graphs"
print(f"{len(differences)} graphs: at most {max(differences):.2g} from ONNX Runtime {onnxruntime.__version__}")
if max(differences) > 1e-5:
    sys.exit("1e-5 is exceeded")
