"""Shared by the twins of the small programs: seppo's random numbers, so that they draw the same data, and the reader of
the parameters that seppo saved."""
import json, math, os, struct, sys

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
import numpy
import torch

torch.set_num_threads(1)
is_timed = False  # if set, dropout uses PyTorch's own masks
INIT, SHUFFLE, DROPOUT, DATA, TEST, SAMPLING = range(1, 7)  # seppo's Purpose


def philox(key, counters):
    """Philox4x32-10 (Salmon et al. 2011) with a 64-bit key: counters [n, 4] -> [n, 4]."""
    x = [counters[:, i].astype(numpy.uint64) for i in range(4)]
    k0, k1, low, half = key & 0xFFFFFFFF, key >> 32, numpy.uint64(0xFFFFFFFF), numpy.uint64(32)
    for _ in range(10):
        p0, p1 = x[0] * numpy.uint64(0xD2511F53), x[2] * numpy.uint64(0xCD9E8D57)
        x = [p1 >> half ^ x[1] ^ numpy.uint64(k0), p1 & low, p0 >> half ^ x[3] ^ numpy.uint64(k1), p0 & low]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return numpy.stack(x, 1)


class RandomStream:
    """autograd/core/random.h"""
    BLOCKS = 64

    def __init__(self, seed, purpose, index=0):
        self.seed, self.tail = seed, [index & 0xFFFFFFFF, index >> 32, purpose << 24]
        self.block, self.words, self.spare = 0, iter(()), None

    def next(self):
        word = next(self.words, None)
        if word is None:
            first = numpy.arange(self.block, self.block + self.BLOCKS)[:, None]
            counters = numpy.concatenate([first, numpy.tile(self.tail, (self.BLOCKS, 1))], 1)
            self.block += self.BLOCKS
            self.words = iter(philox(self.seed, counters).reshape(-1).tolist())
            word = next(self.words)
        return word

    def uniform(self):
        high = self.next()
        return (high << 32 | self.next()) / 2048 // 1 * 2.0 ** -53

    def normal(self):
        if self.spare is not None:
            value, self.spare = self.spare, None
            return value
        radius = math.sqrt(-2 * math.log1p(-self.uniform()))
        angle = 2 * math.pi * self.uniform()
        self.spare = radius * math.sin(angle)
        return radius * math.cos(angle)

    def below(self, n):
        threshold = (1 << 32) % n
        while True:
            product = self.next() * n
            if product & 0xFFFFFFFF >= threshold:
                return product >> 32


class Sampler:
    """nn/data/sampler.h, shuffled, without lengths."""

    def __init__(self, examples, batch, seed=0):
        self.examples, self.batch, self.seed, self.drawn, self.epoch = examples, batch, seed, 0, None

    def seek(self, batches):
        self.drawn = batches

    def next(self):
        epoch, n = divmod(self.drawn, self.examples // self.batch)
        if epoch != self.epoch:
            random, self.order, self.epoch = RandomStream(self.seed, SHUFFLE, epoch + 1), list(range(self.examples)), epoch
            for i in range(self.examples, 1, -1):
                j = random.below(i)
                self.order[i - 1], self.order[j] = self.order[j], self.order[i - 1]
        self.drawn += 1
        return self.order[n * self.batch:(n + 1) * self.batch]


def dropout(x, p, seed, step, site=0):
    """The op of autograd/ops.h: 128 elements take the 16-bit halves of 16 blocks, word by word, low halves first."""
    if is_timed:
        return torch.nn.functional.dropout(x, p)
    groups = -(-x.numel() // 128)
    tail = numpy.array([0, step, DROPOUT << 24 | site])
    counters = numpy.concatenate([numpy.arange(16 * groups)[:, None], numpy.tile(tail, (16 * groups, 1))], 1)
    words = philox(seed, counters).reshape(groups, 16, 4).transpose(0, 2, 1)
    halves = numpy.stack([words & numpy.uint64(0xFFFF), words >> numpy.uint64(16)], 2).reshape(-1)
    kept = torch.from_numpy((halves[:x.numel()] >= round(p * 65536)).reshape(x.shape))
    return torch.where(kept, x / (1 - p), torch.zeros_like(x))


def sinusoid(length, d):
    angle = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, d, 2) / d)
    return torch.stack([angle.sin(), angle.cos()], -1).reshape(length, d)


def clip_grad_norm(parameters, most):
    """torch.nn.utils.clip_grad_norm_ without the 1e-6 in its denominator, which is visible in double precision."""
    gradients = [p.grad for p in parameters]
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in gradients])).item()
    for g in gradients if norm > most else []:
        g.mul_(most / norm)


def read_safetensors(path):
    with open(path, "rb") as file:
        content = file.read()
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + size])
    header.pop("__metadata__")
    types = {"F32": numpy.float32, "F64": numpy.float64}
    at = lambda entry: content[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]]
    return {name: torch.from_numpy(numpy.frombuffer(at(entry), types[entry["dtype"]]).reshape(entry["shape"]).copy())
            for name, entry in header.items()}
