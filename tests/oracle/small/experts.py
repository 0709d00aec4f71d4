"""The twin of examples/small/experts.cpp."""
import torch
from torch import nn
from torch.nn import functional as F

from common import DATA, TEST, RandomStream

BATCH, KINDS, EXPERTS, TOP, SIZE, HIDDEN, BALANCE = 128, 3, 8, 2, 8, 16, 0.3


class World:
    def __init__(self):
        random = RandomStream(1, DATA, 1)
        self.centres = [[3 * random.normal() for _ in range(SIZE)] for _ in range(KINDS)]
        self.laws = [[[0.5 * random.normal() for _ in range(SIZE)] for _ in range(SIZE)] for _ in range(KINDS)]

    def draw(self, random):
        x, y = [], []
        for _ in range(BATCH):
            kind = random.below(KINDS)
            deviation = [random.normal() for _ in range(SIZE)]
            x.append([c + d for c, d in zip(self.centres[kind], deviation)])
            y.append([sum(a * d for a, d in zip(row, deviation)) for row in self.laws[kind]])
        return torch.tensor(x), torch.tensor(y)


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(SIZE, HIDDEN), nn.Linear(HIDDEN, SIZE)

    def forward(self, x):
        return self.down(F.silu(self.up(x)))


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(SIZE, EXPERTS, bias=False)
        self.experts = nn.ModuleList(Expert() for _ in range(EXPERTS))

    def forward(self, x):
        trust = self.gate(x).softmax(1)
        values, indices = trust.topk(TOP)
        weights = values / values.sum(1, keepdim=True)
        y, loads = torch.zeros_like(x), []
        for e, expert in enumerate(self.experts):
            rows, places = (indices == e).nonzero(as_tuple=True)
            loads.append(len(rows) / indices.numel())
            y = y.index_add(0, rows, expert(x[rows]) * weights[rows, places, None])
        return y, EXPERTS * (torch.tensor(loads) * trust.mean(0)).sum()


class Training:
    def __init__(self):
        self.world, self.model, self.random = World(), Mixture(), RandomStream(1, DATA)
        self.adam = torch.optim.Adam(self.model.parameters(), 5e-3)

    def draw(self):
        return self.world.draw(self.random)

    def step(self, batch):
        y, imbalance = self.model(batch[0])
        error = F.mse_loss(y, batch[1])
        self.adam.zero_grad()
        (error + BALANCE * imbalance).backward()
        self.adam.step()
        return error.item()


def main():
    training = Training()
    for step in range(1, 1501):
        error = training.step(training.draw())
        if step % 250 == 0:
            print(f"step {step}: mean squared error {error:.4f}")
    x, y = training.world.draw(RandomStream(1, TEST))
    with torch.no_grad():
        guess, imbalance = training.model(x)
        explained = 1 - F.mse_loss(guess, y) / y.square().mean()
    print(f"{explained:.1%} of the variance explained, imbalance {imbalance:.2f}")


if __name__ == "__main__":
    main()
