#!/usr/bin/python3
"""PyTorch's results, for check_cases to compare with: one JSON object per line.

Draws inputs, runs PyTorch in float64 and prints inputs, cotangents, outputs and gradients: for PyTorch's own sample
inputs of each op that seppo has (its OpInfo database), for inputs that it lacks, for the rows of --rows, for attention
and Transformer modules with random weights, and for optimisers and schedules. With --float32, for whole
Transformers: the exact gradients, and how far PyTorch's own float32 gradients are from them; with --all, for more
and larger ones.

Exits with 77 if PyTorch is not installed.
"""
import json
import random
import sys
import types

try:
    import torch
except ImportError:
    print("skipped: PyTorch's answers; install python3-torch", file=sys.stderr)
    sys.exit(77)
import torch.nn.functional as F
from torch_compositions import composition_cases
from torch_modules import float32_cases, module_cases
from torch_rows import row_cases

skipped = {}


def flat(tensor):
    return {"shape": list(tensor.shape), "data": tensor.detach().double().reshape(-1).tolist()}


def skip(reason):
    skipped[reason] = skipped.get(reason, 0) + 1


def case(op, inputs, function, /, **args):
    """Prints one case: an op on inputs, which function(*leaves) computes in PyTorch."""
    leaves = [x.detach().clone().double().requires_grad_() for x in inputs]
    output = function(*leaves)
    tensors = leaves + [output]
    if any(x.dim() > 6 for x in tensors):
        return skip("more than six axes")
    if any(x.numel() > 30000 for x in tensors):
        return skip("large")
    if not all(torch.isfinite(x).all() for x in tensors):
        return skip("not finite")
    cotangent = torch.randn_like(output)
    gradients = [None] * len(leaves)
    if output.requires_grad:
        gradients = torch.autograd.grad(output, leaves, cotangent, allow_unused=True)
    gradients = [torch.zeros_like(x) if g is None else g for x, g in zip(leaves, gradients)]
    print(json.dumps({"op": op, "args": args, "inputs": [flat(x) for x in leaves], "cotangent": flat(cotangent)["data"],
                      "output": flat(output), "gradients": [flat(g)["data"] for g in gradients]}))


# ---- PyTorch's own samples -----------------------------------------------------------------------
# For each op: sample -> (seppo's op, tensors, arguments), or the reason why the sample has no counterpart. A
# fourth element is the function to compute; by default it is the op itself applied to the tensors.

def ints(tensor):
    return tensor.reshape(-1).tolist()


def unary(name):
    return lambda s: (name, [s.input], {}) if not s.args and not s.kwargs else "other options"


def binary(name):
    def adapt(s):
        if s.kwargs.get("alpha", 1) != 1:
            return "alpha"
        if not torch.is_tensor(s.args[0]):
            return "a number as operand"
        return name, [s.input, s.args[0]], {}
    return adapt


def axes_of(s):
    dim = s.kwargs.get("dim", s.args[0] if s.args else None)
    return list(dim) if isinstance(dim, (tuple, list)) else [] if dim is None else [dim]


def reduction(name):
    def adapt(s):
        keepdim = s.kwargs.get("keepdim", s.args[1] if name == "logsumexp" and len(s.args) > 1 else False)
        args = {"axes": axes_of(s), "keepdim": bool(keepdim)}
        if name in ("var", "std"):
            if len(s.args) > 0 and isinstance(s.args[0], bool):
                return "other signature"
            args["correction"] = s.kwargs.get("correction", 1 if s.kwargs.get("unbiased", True) else 0)
            if args["correction"] is None:
                args["correction"] = 1
        if "dtype" in s.kwargs:
            return "dtype"
        return name, [s.input], args
    return adapt


def softmax(name):
    def adapt(s):
        return (name, [s.input], {"axis": s.args[0]}) if "dtype" not in s.kwargs else "dtype"
    return adapt


def constant(tensor):
    return None if tensor is None else flat(tensor)


def classes(name):
    """cross_entropy and nll_loss: classes are on axis 1 in PyTorch, and of vectors on the only axis."""
    def adapt(s):
        target, kwargs = s.args[0], s.kwargs
        if len(s.args) > 1:
            return "other signature"
        function = getattr(F, name)
        args = {"reduction": kwargs.get("reduction", "mean"), "weight": constant(kwargs.get("weight")),
                "smoothing": kwargs.get("label_smoothing", 0.0), "ignored": kwargs.get("ignore_index", -100),
                "axis": min(1, s.input.dim() - 1)}
        if torch.is_floating_point(target):
            return "soft_cross_entropy", [s.input, target], args, lambda x, p: function(x, p, **kwargs)
        return name, [s.input], {"targets": ints(target), **args}, lambda x: function(x, target, **kwargs)
    return adapt


def elementwise_loss(name, *options):
    def adapt(s):
        if set(s.kwargs) - {"reduction", *options}:
            return "other options"
        args = {"reduction": s.kwargs.get("reduction", "mean")}
        for option in options:
            value = s.kwargs.get(option)
            args[option] = value if isinstance(value, float) else constant(value)
        return name, [s.input, s.args[0]], args, lambda x, t: getattr(F, name)(x, t, **s.kwargs)
    return adapt


def einsum(s):
    equation, operands = s.args[0], list(s.input)
    labels = [part.replace("...", "").strip() for part in equation.split("->")[0].split(",")]
    if len(operands) > 2 or any(len(set(part)) < len(part) for part in labels):
        return "diagonals, or more than two operands"
    sizes = {}
    if any(sizes.setdefault(label, n) != n for part, x in zip(labels, operands) if len(part) == x.dim()
           for label, n in zip(part, x.shape)):
        return "labels that repeat"
    return "einsum", operands, {"equation": equation}, lambda *x: torch.einsum(equation, *x)


def layer_norm(s):
    if len(s.args[0]) != 1 or len(s.args) + len(s.kwargs) < 3:
        return "other axes, or no weights"
    weight, bias = (list(s.args[1:]) + [s.kwargs.get("weight"), s.kwargs.get("bias")])[:2]
    if weight is None or bias is None or s.input.numel() == 0:
        return "no weights"
    eps = s.kwargs.get("eps", s.args[3] if len(s.args) > 3 else 1e-5)
    return "layer_norm", [s.input, weight, bias], {"epsilon": eps}, lambda x, w, b: F.layer_norm(x, s.args[0], w, b, eps)


def batch_norm(s):
    mean, var, weight, bias, training, momentum, eps = (list(s.args) + [None] * 7)[:7]
    weight, bias = s.kwargs.get("weight", weight), s.kwargs.get("bias", bias)
    training, eps = s.kwargs.get("training", training or False), s.kwargs.get("eps", eps or 1e-5)
    if s.input.dim() != 2 or any(x is None for x in (mean, var, weight, bias)):
        return "other axes, or no weights"
    return ("batch_norm", [s.input, weight, bias],
            {"mean": mean.tolist(), "var": var.tolist(), "training": training, "epsilon": eps},
            lambda x, w, b: F.batch_norm(x, mean.clone(), var.clone(), w, b, training, 0.1, eps))


def masked_fill(s):
    mask, value = s.args
    if torch.is_tensor(value) and value.dim() > 0 or torch.broadcast_shapes(mask.shape, s.input.shape) != s.input.shape:
        return "mask larger than x"
    return "masked_fill", [s.input], {"mask": flat(mask), "value": float(value)}, lambda x: x.masked_fill(mask, value)


def where(s):
    condition, other = s.args
    return "where", [s.input, other], {"condition": flat(condition)}, lambda a, b: torch.where(condition, a, b)


def indexed(name):
    def adapt(s):
        dim, index = s.args[0], s.args[1]
        if s.input.dim() == 0 and name != "index_select" and index.dim() != 0:
            return "a scalar at a list of indices"
        args = {"axis": dim, "indices": ints(index), "shape": list(index.shape)}
        return name, [s.input] + list(s.args[2:]), args
    return adapt


def several(name):
    """cat and stack."""
    def adapt(s):
        axis = s.kwargs.get("dim", s.args[0] if s.args else 0)
        if any(x.dim() == 1 and x.numel() == 0 for x in s.input) and any(x.dim() > 1 for x in s.input):
            return "an empty vector among matrices"
        return name, list(s.input), {"axis": axis}, lambda *x: getattr(torch, name)(x, axis)
    return adapt


def parts(name):
    """split and chunk: with the parts in reverse order, so that each must be the right one."""
    def adapt(s):
        axis = s.args[1] if len(s.args) > 1 else s.kwargs.get("dim", 0)
        if s.input.dim() == 0:
            return "an axis of a scalar"
        of = lambda x: torch.cat(list(reversed(getattr(torch, name)(x, s.args[0], axis))), axis)
        return name, [s.input], {"size": s.args[0], "axis": axis}, of
    return adapt


def shaped(name):
    def adapt(s):
        sizes = s.args[0] if isinstance(s.args[0], (tuple, list, torch.Size)) else s.args
        return name, [s.input], {"sizes": list(sizes)}
    return adapt


def axis_arguments(name, *keys):
    def adapt(s):
        values = list(s.args) + [s.kwargs[k] for k in s.kwargs if k != "dtype"]
        if any(torch.is_tensor(v) for v in values):
            return "arguments that are tensors"
        return (name, [s.input], dict(zip(keys, values))) if len(values) == len(keys) else "other options"
    return adapt


def number_or_tensor_pow(s):
    exponent = s.args[0]
    if torch.is_tensor(exponent):
        return "pow", [s.input, exponent], {}
    return "pow_number", [s.input], {"exponent": float(exponent)}


ADAPTERS = {
    **{name: unary(name) for name in "abs neg exp log sqrt rsqrt tanh sigmoid square erf sin cos log1p expm1 sign floor trunc round".split()},
    "nn.functional.relu": unary("relu"), "nn.functional.silu": unary("silu"), "nn.functional.softplus": unary("softplus"),
    "nn.functional.gelu": lambda s: (
        "gelu" if s.kwargs.get("approximate", "none") == "none" else "gelu_tanh", [s.input], {}),
    **{name: binary(name) for name in "add sub mul div maximum minimum matmul".split()},
    "bmm": binary("matmul"), "mm": binary("matmul"), "pow": number_or_tensor_pow,
    "clamp": lambda s: "one limit" if None in s.args or len(s.args) < 2 else
    ("clamp_tensor", [s.input, s.args[0], s.args[1]], {}, lambda x, a, b: x.clamp(a, b)) if torch.is_tensor(s.args[0]) else
    ("clamp", [s.input], {"low": s.args[0], "high": s.args[1]}),
    **{name: reduction(name) for name in "sum mean prod var std amax amin logsumexp".split()},
    "softmax": softmax("softmax"), "log_softmax": softmax("log_softmax"),
    "cumsum": axis_arguments("cumsum", "axis"), "squeeze": axis_arguments("squeeze", "axis"),
    "unsqueeze": axis_arguments("unsqueeze", "axis"), "transpose": axis_arguments("transpose", "a", "b"),
    "narrow": axis_arguments("narrow", "axis", "start", "length"),
    "flip": lambda s: ("flip", [s.input], {"axes": list(s.kwargs["dims"])}) if s.kwargs["dims"] else "no axes",
    "tril": lambda s: ("tril", [s.input], {"diagonal": s.args[0] if s.args else 0}),
    "triu": lambda s: ("triu", [s.input], {"diagonal": s.args[0] if s.args else 0}),
    "permute": shaped("permute"), "reshape": shaped("reshape"), "view": shaped("reshape"), "expand": shaped("expand"),
    "cat": several("cat"), "stack": several("stack"), "split": parts("split"), "chunk": parts("chunk"),
    "masked_fill": masked_fill, "where": where,
    "gather": indexed("gather"), "index_select": indexed("index_select"), "scatter_add": indexed("scatter_add"),
    "nn.functional.linear": lambda s: ("linear", [s.input] + list(s.args), {}),
    "nn.functional.layer_norm": layer_norm, "nn.functional.batch_norm": batch_norm,
    "nn.functional.cross_entropy": classes("cross_entropy"), "nn.functional.nll_loss": classes("nll_loss"),
    **{"nn.functional." + name: elementwise_loss(name) for name in ("mse_loss", "l1_loss")},
    "nn.functional.huber_loss": elementwise_loss("huber_loss", "delta"),
    "nn.functional.binary_cross_entropy_with_logits": elementwise_loss("binary_cross_entropy_with_logits", "weight",
                                                                       "pos_weight"),
    "nn.functional.elu": lambda s: ("elu", [s.input], {"alpha": s.kwargs.get("alpha", 1.0)}, lambda x: F.elu(
        x, alpha=s.kwargs.get("alpha", 1.0))),
    "nn.functional.leaky_relu": lambda s: ("leaky_relu", [s.input], {"slope": s.kwargs.get("negative_slope", 0.01)},
                                           lambda x: F.leaky_relu(x, s.kwargs.get("negative_slope", 0.01))),
    "topk": lambda s: ("topk", [s.input], {"k": s.args[0], "axis": s.args[1] if len(s.args) > 1 else -1,
                                           "largest": s.args[2] if len(s.args) > 2 else True},
                       lambda x: torch.topk(x, *s.args)[0]) if s.args[0] > 0 else "no elements",
    "unfold": lambda s: ("unfold", [s.input], {"axis": s.args[0], "size": s.args[1], "step": s.args[2]}),
    "index_add": lambda s: ("index_add", [s.input, s.args[2]], {"axis": s.args[0], "indices": ints(s.args[1])},
                            lambda x, y: x.index_add(s.args[0], s.args[1], y)) if not s.kwargs else "alpha",
    "index_reduce": lambda s: ("index_amax", [s.input, s.args[2]], {"axis": s.args[0], "indices": ints(s.args[1])},
                               lambda x, y: x.index_reduce(s.args[0], s.args[1], y, "amax"))
    if s.kwargs.get("include_self", True) and s.args[3:] + tuple(s.kwargs.values()) and "amax" in
    (*s.args[3:], s.kwargs.get("reduce")) else "another reduction",
    "roll": lambda s: ("roll", [s.input], {"shift": s.args[0], "axis": s.args[1]})
    if len(s.args) == 2 and isinstance(s.args[0], int) and isinstance(s.args[1], int) else "several axes",
    "einsum": einsum,
    "nn.functional.cosine_similarity": lambda s: (
        "cosine_similarity", [s.input, s.args[0]], {"axis": s.kwargs.get("dim", 1)})
    if s.input.shape == s.args[0].shape and s.input.dim() > 0 and "eps" not in s.kwargs else "other options",
}


def opinfo():
    """The database of PyTorch's own tests; it needs a module that Debian does not package."""
    stub = types.ModuleType("expecttest")
    stub.TestCase, stub.ACCEPT = object, False
    sys.modules.setdefault("expecttest", stub)
    sample = random.sample
    random.sample = lambda population, k: sample(sorted(population) if isinstance(population, set) else population, k)
    from torch.testing._internal.common_methods_invocations import op_db
    return op_db


def sample_cases():
    for op in opinfo():
        if op.name not in ADAPTERS or op.variant_test_name not in ("", "no_rounding_mode"):
            continue
        for sample in op.sample_inputs("cpu", torch.float64, requires_grad=True):
            adapted = ADAPTERS[op.name](sample)
            if isinstance(adapted, str):
                skip(adapted)
                continue
            name, tensors, args = adapted[:3]
            if not all(torch.is_tensor(x) for x in tensors):
                skip("a number as operand")
                continue
            rest = [a for a in sample.args if not torch.is_tensor(a)]
            if len(adapted) > 3:
                function = adapted[3]
            elif name in ("gather", "index_select"):
                function = lambda x: op.op(x, *sample.args)
            elif name == "scatter_add":
                function = lambda x, source: op.op(x, sample.args[0], sample.args[1], source)
            else:
                function = lambda *x: op.op(*x, *rest, **sample.kwargs)
            case(name, tensors, function, **args)


# ---- cases without samples in PyTorch -------------------------------------------------------------

def more_cases():
    def r(*sizes):
        return torch.randn(*sizes, dtype=torch.float64)

    for equation, a, b in [("ij,jk->ik", (3, 4), (4, 5)), ("bqhd,bkhd->bhqk", (2, 3, 2, 4), (2, 5, 2, 4)),
                           ("bhqk,bkhd->bqhd", (2, 2, 3, 5), (2, 5, 2, 4)), ("ij,ij->", (3, 4), (3, 4)), ("i,j->ji", (3,), (4,)),
                           ("ijk,il->lj", (2, 3, 4), (2, 5))]:
        case("einsum", [r(a), r(b)], lambda x, y: torch.einsum(equation, x, y), equation=equation)
    ids = torch.tensor([3, 0, 3, 1])
    case("embedding", [r(5, 3)], lambda t: F.embedding(ids, t), ids=ints(ids), padding=-1)
    case("embedding", [r(5, 3)], lambda t: F.embedding(ids, t, padding_idx=3), ids=ints(ids), padding=3)
    case("one_hot", [], lambda: F.one_hot(ids, 5).double(), ids=ints(ids), classes=5)
    for start, end, step in [(0, 5, 1), (1, 2.5, 0.5), (3, -1, -2), (0.1, 1.1, 0.1), (2, 2, 1)]:
        case("arange", [], lambda: torch.arange(start, end, step, dtype=torch.float64), start=start, end=end, step=step)
    for training in (False, True):
        mean, var = r(3), torch.rand(3, dtype=torch.float64) + 0.5
        case("batch_norm", [r(5, 3), r(3), r(3)],
             lambda x, w, b: F.batch_norm(x, mean.clone(), var.clone(), w, b, training, 0.1, 1e-5),
             mean=mean.tolist(), var=var.tolist(), training=training, epsilon=1e-5)
    for axis in (0, 1, 2):
        case("max", [r(3, 4, 5)], lambda x: torch.max(x, axis)[0], axis=axis)
        case("min", [r(3, 4, 5)], lambda x: torch.min(x, axis)[0], axis=axis)
        case("argmax", [r(3, 4, 5)], lambda x: torch.argmax(x, axis).double(), axis=axis)
    case("amax", [torch.tensor([[1.0, 3, 3], [2, 2, 2]])], lambda x: torch.amax(x, 1), axes=[1], keepdim=False)
    tied = torch.tensor([1.0, 2, 3])
    case("maximum", [tied, torch.tensor([2.0, 2, 2])], torch.maximum)
    case("clamp", [tied], lambda x: torch.clamp(x, 1, 2), low=1.0, high=2.0)
    case("abs", [torch.tensor([-1.0, 0, 1])], torch.abs)
    case("relu", [torch.tensor([-1.0, 0, 1])], torch.relu)
    for smoothing in (0.0, 0.1, 0.7):
        for ignored in (-100, 2):
            for total in (False, True):
                target = torch.tensor([0, 2, 1, 2, 4])
                case("cross_entropy", [r(5, 5)],
                     lambda x: F.cross_entropy(x, target, label_smoothing=smoothing, ignore_index=ignored,
                                               reduction="sum" if total else "mean"),
                     targets=ints(target), reduction="sum" if total else "mean", weight=None, smoothing=smoothing,
                     ignored=ignored, axis=1)
    case("linear", [r(3, 4), r(4)], F.linear)
    case("gather", [r(3, 4)], lambda x: torch.gather(x, 1, torch.zeros(0, dtype=torch.long)), axis=1, indices=[], shape=[0])
    for name in ("floor", "trunc", "round"):
        case(name, [torch.arange(-2.5, 3.0, 0.5)], getattr(torch, name))
    for axes in (1, (0, 2), (-1, 0), None):
        for keepdim in (False, True):
            case("norm", [r(3, 4, 2)], lambda x: torch.linalg.vector_norm(x, dim=axes, keepdim=keepdim),
                 axes=[axes] if isinstance(axes, int) else list(axes or []), keepdim=keepdim)
    case("norm", [torch.tensor([[0.0, 0], [3, 4]])], lambda x: torch.linalg.vector_norm(x, dim=1), axes=[1], keepdim=False)
    case("std", [torch.tensor([[2.0, 2], [3, 4]])], lambda x: torch.std(x, 1), axes=[1], keepdim=False, correction=1)
    case("prod", [torch.tensor([[2.0, 0, 3], [0, 5, 0], [1, 2, 4]])], lambda x: x.prod(1), axes=[1], keepdim=False)


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    if "--float32" in sys.argv:
        float32_cases(all_sizes="--all" in sys.argv)
        return
    sample_cases()
    more_cases()
    composition_cases(case)
    row_cases(case)
    module_cases()
    for reason, count in sorted(skipped.items()):
        print(f"left out {count}: {reason}", file=sys.stderr)


main()
