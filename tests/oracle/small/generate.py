"""The twin of examples/small/generate.cpp; it generates text without a key-value cache."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from common import Sampler, clip_grad_norm

RHYME = ("One for sorrow,\nTwo for mirth,\nThree for a funeral,\nFour for birth,\nFive for heaven,\nSix for hell,\n"
         "Seven for the devil, his own self.\n")
ALPHABET = "\n ,.FOSTabcdefghilmnorstuvwx"
WINDOW, STEPS, WARMUP, D_MODEL, HEADS, KEY_HEADS, HIDDEN = 32, 500, 20, 32, 4, 2, 64
WIDTH = D_MODEL // HEADS
SIZES = [D_MODEL, KEY_HEADS * WIDTH, KEY_HEADS * WIDTH]


def encode(text):
    return [ALPHABET.index(c) for c in text]


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
        self.qkv, self.out = linear(D_MODEL, sum(SIZES)), linear(D_MODEL, D_MODEL)
        self.gate, self.up, self.down = linear(D_MODEL, HIDDEN), linear(D_MODEL, HIDDEN), linear(HIDDEN, D_MODEL)
        self.norm1, self.norm2 = RmsNorm(D_MODEL), RmsNorm(D_MODEL)

    def forward(self, x, angles, mask):
        q, k, v = (y.unflatten(-1, (-1, WIDTH)) for y in self.qkv(self.norm1(x)).split(SIZES, -1))
        q, k, v = (y.transpose(1, 2) for y in (rotary(q, angles), rotary(k, angles), v))
        k, v = (y.repeat_interleave(HEADS // KEY_HEADS, 1) for y in (k, v))
        weights = (q @ k.transpose(-2, -1) / WIDTH ** 0.5 + mask).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).flatten(2))
        b = self.norm2(x)
        return x + self.down(F.silu(self.gate(b)) * self.up(b))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(len(ALPHABET), D_MODEL)
        self.layers, self.norm = nn.ModuleList(Block() for _ in range(2)), RmsNorm(D_MODEL)
        self.output = nn.Linear(D_MODEL, len(ALPHABET), bias=False)
        angles = torch.arange(WINDOW)[:, None] * 10000 ** (-torch.arange(0, WIDTH, 2) / WIDTH)
        self.register_buffer("angles", angles, persistent=False)
        self.register_buffer("mask", torch.full((WINDOW, WINDOW), -torch.inf).triu(1), persistent=False)

    def forward(self, texts):
        x, length = self.embedding(texts), texts.shape[1]
        for layer in self.layers:
            x = layer(x, self.angles[:length], self.mask[:length, :length])
        return self.output(self.norm(x))


class Training:
    def __init__(self):
        self.rhyme, self.model = torch.tensor(encode(RHYME)), Llama()
        self.sampler = Sampler(len(self.rhyme) - WINDOW, 8)
        self.adam = torch.optim.Adam(self.model.parameters(), 1e-2)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.adam, self.rate)

    @staticmethod
    def rate(done):
        step = done + 1
        progress = max(0, step - WARMUP) / (STEPS - WARMUP)
        return min(1, step / WARMUP) * 0.5 * (1 + math.cos(math.pi * progress))

    def draw(self):
        return self.sampler.next()

    def step(self, starts):
        windows = torch.stack([self.rhyme[start:start + WINDOW + 1] for start in starts])
        loss = F.cross_entropy(self.model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
        self.adam.zero_grad()
        loss.backward()
        clip_grad_norm(self.model.parameters(), 1)
        self.adam.step()
        self.schedule.step()
        return loss.item()


@torch.no_grad()
def generate(model, prompt, max_tokens=80, temperature=0.5, top_p=0.9):
    """Yields letters up to and including the full stop that ends the text."""
    tokens = encode(prompt)
    for _ in range(max_tokens):
        scores = model(torch.tensor([tokens[-WINDOW:]]))[0, -1]
        if temperature == 0:
            tokens.append(scores.argmax().item())
        else:
            shares, order = (scores / temperature).softmax(0).sort(descending=True)
            shares[shares.cumsum(0) - shares >= top_p] = 0
            tokens.append(order[torch.multinomial(shares, 1)].item())
        yield ALPHABET[tokens[-1]]
        if ALPHABET[tokens[-1]] == ".":
            return


def main():
    training = Training()
    for _ in range(STEPS):
        training.step(training.draw())
    for prompt in ("Two for", "Three for a fun"):
        print("...", "".join(generate(training.model, prompt)))
    for letter in generate(training.model, "One"):
        print(letter, end="", flush=True)
    print()
    print("One" + "".join(generate(training.model, "One", WINDOW - 3, temperature=0)))


if __name__ == "__main__":
    main()
