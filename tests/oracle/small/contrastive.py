"""The twin of examples/small/contrastive.cpp."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from common import DATA, TEST, RandomStream, Sampler, clip_grad_norm

THING, VIEW, WIDTH, BATCH, STEPS, TESTED, TEMPERATURE = 6, 16, 8, 96, 300, 200, 0.1


def views(things, purpose):
    first, second = [], []
    for thing in things:
        random = RandomStream(1, purpose, thing)
        z = [random.normal() for _ in range(THING)]
        for i in range(VIEW):
            a = sum(math.sin(1 + i + 2.3 * i * j) * z[j] for j in range(THING))
            b = sum(math.cos(2 + i + 1.7 * i * j) * z[j] for j in range(THING))
            first.append(math.tanh(a) + 0.1 * random.normal())
            second.append(math.tanh(b) + 0.1 * random.normal())
    return torch.tensor(first).view(-1, VIEW), torch.tensor(second).view(-1, VIEW)


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(VIEW, 64), nn.Linear(64, WIDTH)

    def forward(self, views):
        return F.normalize(self.down(F.silu(self.up(views))))


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Tower(), Tower()

    def forward(self, first, second):
        return self.first(first) @ self.second(second).T / TEMPERATURE


class Training:
    def __init__(self):
        self.model, self.sampler = Pair(), Sampler(STEPS * BATCH, BATCH)
        self.adam = torch.optim.Adam(self.model.parameters(), 3e-3)

    def draw(self):
        return views(self.sampler.next(), DATA)

    def step(self, batch):
        scores, own = self.model(*batch), torch.arange(BATCH)
        loss = (F.cross_entropy(scores, own) + F.cross_entropy(scores.T, own)) / 2
        self.adam.zero_grad()
        loss.backward()
        clip_grad_norm(list(self.model.parameters()), 1)
        self.adam.step()
        return loss.item()


def main():
    training = Training()
    for step in range(1, STEPS + 1):
        loss = training.step(training.draw())
        if step % 100 == 0:
            print(f"step {step}: loss {loss:.3f}")
    with torch.no_grad():
        found = training.model(*views(range(TESTED), TEST)).argmax(1) == torch.arange(TESTED)
    print(f"{found.double().mean():.1%} of {TESTED} new things are found among all by their other view")


if __name__ == "__main__":
    main()
