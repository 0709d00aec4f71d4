"""The twin of examples/small/distillation.cpp."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from common import DATA, RandomStream, Sampler, clip_grad_norm

ARMS, STEPS, TEMPERATURE = 3, 800, 2


def points(rows):
    xy, arms = [], []
    for row in rows:
        random, arm = RandomStream(1, DATA, row), row % ARMS
        radius = random.uniform()
        angle = 4 * radius + arm * 2 * math.pi / ARMS
        xy.append([radius * math.cos(angle) + 0.03 * random.normal(), radius * math.sin(angle) + 0.03 * random.normal()])
        arms.append(arm)
    return torch.tensor(xy), torch.tensor(arms)


class Mlp(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.add_module("in", nn.Linear(2, hidden))
        self.mid, self.out = nn.Linear(hidden, hidden), nn.Linear(hidden, ARMS)

    def forward(self, x):
        return self.out(F.silu(self.mid(F.silu(getattr(self, "in")(x)))))


class Training:
    def __init__(self, listens=True):
        self.listens, self.teacher, self.model = listens, Mlp(64), Mlp(12)
        self.adam = torch.optim.Adam(self.model.parameters(), 0.01)
        self.unlabelled, (self.xy, self.arms) = Sampler(600, 100, 3), points(range(600))

    def optimise(self, model, adam, loss):
        adam.zero_grad()
        loss.backward()
        clip_grad_norm(list(model.parameters()), 1)
        adam.step()
        return loss.item()

    def teach(self):
        adam, lessons = torch.optim.Adam(self.teacher.parameters(), 0.01), Sampler(600, 100)
        for _ in range(STEPS):
            rows = lessons.next()
            self.optimise(self.teacher, adam, F.cross_entropy(self.teacher(self.xy[rows]), self.arms[rows]))

    def draw(self):
        return self.unlabelled.next()

    def step(self, batch):
        others = self.xy[batch]
        with torch.no_grad():
            beliefs = (self.teacher(others) / TEMPERATURE).softmax(1)
        imitation = TEMPERATURE ** 2 * F.cross_entropy(self.model(others) / TEMPERATURE, beliefs)
        labelled = F.cross_entropy(self.model(self.xy[:12]), self.arms[:12])
        return self.optimise(self.model, self.adam, labelled + self.listens * imitation)


@torch.no_grad()
def share_right(model):
    xy, arms = points(range(100_000, 100_900))
    return (model(xy).argmax(1) == arms).double().mean().item()


def main():
    alone, taught = Training(listens=False), Training()
    taught.teach()
    for _ in range(STEPS):
        alone.step(alone.draw())
        taught.step(taught.draw())
    print(f"right: teacher {share_right(taught.teacher):.1%}, student alone {share_right(alone.model):.1%}, "
          f"student with teacher {share_right(taught.model):.1%}")


if __name__ == "__main__":
    main()
