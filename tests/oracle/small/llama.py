"""The twin of examples/small/llama.cpp."""
import torch
from torch import nn
from torch.nn import functional as F

from common import DATA, TEST, RandomStream, clip_grad_norm

BATCH, SYMBOLS, HALF, D_MODEL, HEADS, KEY_HEADS, HIDDEN = 32, 16, 10, 32, 4, 2, 64
LENGTH, WIDTH, PLACES = 2 * HALF, D_MODEL // HEADS, 600


def draw(random):
    texts = []
    for _ in range(BATCH):
        half = [random.below(SYMBOLS) for _ in range(HALF)]
        texts.append(half + half)
    texts = torch.tensor(texts)
    following = torch.full_like(texts, -1)
    following[:, HALF - 1:-1] = texts[:, HALF:]
    return texts, following


class RmsNorm(nn.Module):
    def __init__(self, size, eps=1e-5):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(size)), eps

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)


def rotary(x, angles):  # [batch, length, heads, width]
    a, b = x[..., 0::2], x[..., 1::2]
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        linear = lambda inputs, outputs: nn.Linear(inputs, outputs, bias=False)
        self.query, self.out = linear(D_MODEL, D_MODEL), linear(D_MODEL, D_MODEL)
        self.key, self.value = linear(D_MODEL, KEY_HEADS * WIDTH), linear(D_MODEL, KEY_HEADS * WIDTH)
        self.gate, self.up, self.down = linear(D_MODEL, HIDDEN), linear(D_MODEL, HIDDEN), linear(HIDDEN, D_MODEL)
        self.norm1, self.norm2 = RmsNorm(D_MODEL), RmsNorm(D_MODEL)

    def forward(self, x, angles, mask):
        a = self.norm1(x)
        q = rotary(self.query(a).unflatten(-1, (HEADS, WIDTH)), angles)
        k = rotary(self.key(a).unflatten(-1, (KEY_HEADS, WIDTH)), angles)
        v = self.value(a).unflatten(-1, (KEY_HEADS, WIDTH))
        q, k, v = (y.transpose(1, 2) for y in (q, *(y.repeat_interleave(HEADS // KEY_HEADS, 2) for y in (k, v))))
        weights = (q @ k.transpose(-2, -1) / WIDTH ** 0.5 + mask).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).flatten(2))
        b = self.norm2(x)
        return x + self.down(F.silu(self.gate(b)) * self.up(b))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, D_MODEL)
        nn.init.normal_(self.embedding.weight, 0, 0.1)
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(2)), RmsNorm(D_MODEL)
        angles = torch.arange(PLACES)[:, None] * 10000 ** (-torch.arange(0, WIDTH, 2) / WIDTH)
        self.register_buffer("angles", angles, persistent=False)
        self.register_buffer("mask", torch.full((LENGTH, LENGTH), -torch.inf).triu(1), persistent=False)

    def forward(self, texts, first=0):
        x = self.embedding(texts)
        for block in self.blocks:
            x = block(x, self.angles[first:first + LENGTH], self.mask)
        return self.norm(x) @ self.embedding.weight.T


class Training:
    def __init__(self):
        self.model, self.random = Llama(), RandomStream(1, DATA)
        self.adam = torch.optim.Adam(self.model.parameters(), 5e-3)

    def draw(self):
        return draw(self.random)

    def step(self, batch):
        loss = F.cross_entropy(self.model(batch[0]).flatten(0, 1), batch[1].flatten(), ignore_index=-1)
        self.adam.zero_grad()
        loss.backward()
        clip_grad_norm(self.model.parameters(), 1)
        self.adam.step()
        return loss.item()


@torch.no_grad()
def right(model, first):
    texts, following = draw(RandomStream(1, TEST))
    known = following >= 0
    return (model(texts, first).argmax(2) == following)[known].double().mean().item()


def main():
    training = Training()
    for step in range(1, 301):
        loss = training.step(training.draw())
        if step % 100 == 0:
            print(f"step {step}: loss {loss:.4f}")
    print(f"{right(training.model, 0):.1%} of new halves repeated, {right(training.model, 500):.1%} at places never seen")


if __name__ == "__main__":
    main()
