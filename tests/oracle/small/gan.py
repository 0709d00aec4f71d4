"""The twin of examples/small/gan.cpp."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from common import DATA, TEST, RandomStream

BATCH, NOISE, HIDDEN, MODES, SPREAD = 128, 2, 64, 8, 0.05


def draw(random):
    points = []
    for _ in range(BATCH):
        angle = random.below(MODES) * 2 * math.pi / MODES
        points.append([math.cos(angle) + SPREAD * random.normal(), math.sin(angle) + SPREAD * random.normal()])
    noise = [[random.normal() for _ in range(NOISE)] for _ in range(BATCH)]
    return torch.tensor(points), torch.tensor(noise)


class Mlp(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.first, self.mid, self.out = nn.Linear(inputs, HIDDEN), nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, outputs)

    def forward(self, x):
        return self.out(F.relu(self.mid(F.relu(self.first(x)))))


class Training:
    def __init__(self):
        self.model, self.critic, self.random = Mlp(NOISE, 2), Mlp(2, 1), RandomStream(1, DATA)
        self.adam = torch.optim.Adam(self.model.parameters(), 1e-3, betas=(0.5, 0.9))
        self.critic_adam = torch.optim.Adam(self.critic.parameters(), 3e-3, betas=(0.5, 0.9))

    def draw(self):
        return draw(self.random)

    def step(self, batch):
        points, noise = batch
        drawn = self.model(noise)
        self.critic.requires_grad_(True)
        self.critic_adam.zero_grad()
        (F.softplus(-self.critic(points)).mean() + F.softplus(self.critic(drawn.detach())).mean()).backward()
        self.critic_adam.step()

        self.critic.requires_grad_(False)
        self.adam.zero_grad()
        loss = F.softplus(-self.critic(drawn)).mean()
        loss.backward()
        self.adam.step()
        return loss.item()


def main():
    training = Training()
    for step in range(1, 2001):
        loss = training.step(training.draw())
        if step % 500 == 0:
            print(f"step {step}: loss of the generator {loss:.3f}")
    random, near, count = RandomStream(1, TEST), [0] * MODES, 10 * BATCH
    for _ in range(10):
        with torch.no_grad():
            drawn = training.model(draw(random)[1])
        for x, y in drawn.tolist():
            mode = round(MODES * math.atan2(y, x) / (2 * math.pi)) % MODES
            angle = mode * 2 * math.pi / MODES
            near[mode] += math.hypot(x - math.cos(angle), y - math.sin(angle)) <= 4 * SPREAD
    covered = sum(n >= count // MODES // 4 for n in near)
    print(f"{sum(near) / count:.1%} of {count} points within 4 deviations of a cluster; {covered} of {MODES} clusters")


if __name__ == "__main__":
    main()
