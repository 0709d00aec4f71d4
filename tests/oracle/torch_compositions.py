"""Cases where one library has an op and the other composes it: the code that docs/from-pytorch.md gives for PyTorch's
ops, and ops of seppo that PyTorch lacks.
"""
import torch
import torch.nn.functional as F


def r(*sizes):
    return torch.randn(*sizes, dtype=torch.float64)


def causal_weights(q, k):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    return scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1) > 0, -torch.inf).softmax(-1)


def composed_by_seppo(case):
    case("eye", [], lambda: torch.eye(4, dtype=torch.float64), n=4)
    case("repeat_interleave", [r(3, 4)], lambda x: torch.repeat_interleave(x, 3, 1), n=3, axis=1)
    case("pad", [r(2, 3)], lambda x: F.pad(x, (2, 1), value=0.5), axis=1, before=2, after=1, value=0.5)
    ids = torch.tensor([3, 0, 3, 1])
    case("segment_sum", [r(4, 3)], lambda x: torch.zeros(5, 3, dtype=torch.float64).index_add(0, ids, x),
         ids=ids.tolist(), n=5)
    case("normalize", [r(3, 4, 2)], lambda x: F.normalize(x, dim=1))
    case("cdist", [r(2, 5, 3), r(2, 4, 3)], torch.cdist)
    case("cdist_squared", [r(5, 3), r(4, 3)], lambda a, b: torch.cdist(a, b) ** 2)
    case("attention_weights", [r(2, 3, 4, 8), r(2, 3, 4, 8)], causal_weights)


def rms_norm(x, gain):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * gain


def capped_attention(cap):
    def function(q, k, v, bias):
        q, k, v = (x.unflatten(-1, (2, -1)).transpose(1, 2) for x in (q, k, v))
        scores = cap * torch.tanh(q @ k.mT / q.shape[-1] ** 0.5 / cap) + bias
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
    return function


def composed_by_pytorch(case):
    case("rms_norm", [r(4, 6), r(6)], rms_norm, epsilon=1e-5)
    for cap in (0.5, 30.0):
        case("capped_attention", [r(2, 3, 8), r(2, 5, 8), r(2, 5, 6), r(2, 3, 5)], capped_attention(cap), heads=2, cap=cap)


def composition_cases(case):
    composed_by_seppo(case)
    composed_by_pytorch(case)
