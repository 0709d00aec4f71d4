"""The twin of examples/small/diffusion.cpp."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from common import DATA, TEST, RandomStream

BATCH, HIDDEN, TIMES, STEPS, DRAWN, WAVES, SPREAD = 128, 96, 50, 3000, 1000, 4, 0.03


def on_spiral(part):
    radius, angle = 0.2 + 1.4 * part, 3 * math.pi * part
    return radius * math.cos(angle), radius * math.sin(angle)


def share_of_point(time):
    return 1 if time == 0 else math.cos(0.99 * math.pi / 2 * time / TIMES) ** 2


def draw(random):
    noisy, noises, times = [], [], []
    for _ in range(BATCH):
        on, time = on_spiral(random.uniform()), 1 + random.below(TIMES)
        share = share_of_point(time)
        for x in on:
            point, noise = x + SPREAD * random.normal(), random.normal()
            noisy.append(math.sqrt(share) * point + math.sqrt(1 - share) * noise)
            noises.append(noise)
        times.append(time)
    return torch.tensor(noisy).view(BATCH, 2), torch.tensor(noises).view(BATCH, 2), torch.tensor(times)


def waves(x):
    angles = x[..., None] * torch.tensor([1, 2, 4, 8])
    return torch.cat([angles.sin(), angles.cos()], 2).flatten(1)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.mid = nn.Linear(2 + 3 * 2 * WAVES, HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.deep, self.out = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, 2)

    def forward(self, noisy, times):
        x = torch.cat([noisy, waves(noisy), waves(times[:, None] * (math.pi / 2 / TIMES))], 1)
        return self.out(F.silu(self.deep(F.silu(self.mid(F.silu(self.first(x)))))))


class Training:
    def __init__(self):
        self.model, self.random, self.done = Denoiser(), RandomStream(1, DATA), 0
        self.adam = torch.optim.Adam(self.model.parameters())

    def draw(self):
        return draw(self.random)

    def step(self, batch):
        noisy, noise, times = batch
        loss = F.mse_loss(self.model(noisy, times), noise)
        self.adam.zero_grad()
        loss.backward()
        self.adam.param_groups[0]["lr"] = 3e-3 * (1 + math.cos(math.pi * self.done / STEPS)) / 2
        self.done += 1
        self.adam.step()
        return loss.item()


@torch.no_grad()
def drawn_by(model):
    random = RandomStream(1, TEST)
    x = torch.tensor([random.normal() for _ in range(2 * DRAWN)]).view(DRAWN, 2)
    for time in range(TIMES, 0, -1):
        share, following = share_of_point(time), share_of_point(time - 1)
        noise = model(x, torch.full((DRAWN,), time))
        x = math.sqrt(following) * (x - math.sqrt(1 - share) * noise) / math.sqrt(share) + math.sqrt(1 - following) * noise
    return x


def main():
    training = Training()
    for step in range(1, STEPS + 1):
        loss = training.step(training.draw())
        if step % 1000 == 0:
            print(f"step {step}: loss {loss:.4f}")
    spiral = torch.tensor([on_spiral(part / 1000) for part in range(1000)])
    distances, parts = torch.cdist(drawn_by(training.model), spiral).min(1)
    near, covered = (distances < 0.1).double().mean().item(), sum(torch.bincount(parts // 100, minlength=10) >= DRAWN // 40)
    print(f"{near:.1%} of new points lie within 0.1 of the spiral; {covered} of 10 parts are covered")


if __name__ == "__main__":
    main()
