"""The twin of examples/small/vit.cpp."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from common import DATA, TEST, RandomStream, clip_grad_norm

SIDE, COLOURS, PATCH, BATCH, CLASSES, D_MODEL, STEPS, WARMUP = 16, 3, 4, 32, 4, 32, 600, 50
PATCHES = (SIDE // PATCH) ** 2


def is_painted(shape, x, y, size):
    x, y = abs(x), abs(y)
    if shape == 0:
        return max(x, y) <= 0.8 * size
    if shape == 1:
        return x + y <= 1.2 * size
    if shape == 2:
        return abs(math.hypot(x, y) - 0.8 * size) <= 0.8
    return min(x, y) <= 0.8 and max(x, y) <= size


def draw(random):
    images, classes = [], []
    for _ in range(BATCH):
        shape = random.below(CLASSES)
        size, x, y = 3 + 2 * random.uniform(), 5 + 5 * random.uniform(), 5 + 5 * random.uniform()
        paper = [random.uniform() - 0.5 for _ in range(COLOURS)]
        images.append([[[colour + 0.5 * is_painted(shape, col - x, row - y, size) for col in range(SIDE)]
                        for row in range(SIDE)] for colour in paper])
        classes.append(shape)
    return torch.tensor(images), torch.tensor(classes)


class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Linear(PATCH * PATCH * COLOURS, D_MODEL)
        self.token = nn.Parameter(0.02 * torch.randn(1, D_MODEL))
        self.positions = nn.Parameter(0.02 * torch.randn(PATCHES + 1, D_MODEL))
        layer = nn.TransformerEncoderLayer(D_MODEL, 4, 64, 0, F.gelu, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, nn.LayerNorm(D_MODEL))
        self.output = nn.Linear(D_MODEL, CLASSES)

    def forward(self, images):  # [images, colours, side, side]
        x = images.unfold(2, PATCH, PATCH).unfold(3, PATCH, PATCH)  # [images, colours, grid, grid, patch, patch]
        words = self.patches(x.permute(0, 2, 3, 4, 5, 1).reshape(len(images), PATCHES, -1))
        x = torch.cat([self.token.expand(len(images), 1, D_MODEL), words], 1) + self.positions
        return self.output(self.layers(x)[:, 0])


class Training:
    def __init__(self):
        self.model, self.random = Vit(), RandomStream(1, DATA)
        self.adam = torch.optim.Adam(self.model.parameters(), 3e-3)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.adam, self.rate)

    @staticmethod
    def rate(done):
        progress = max(0, done + 1 - WARMUP) / (STEPS - WARMUP)
        return min(1, (done + 1) / WARMUP) * 0.5 * (1 + math.cos(math.pi * progress))

    def draw(self):
        return draw(self.random)

    def step(self, batch):
        loss = F.cross_entropy(self.model(batch[0]), batch[1])
        self.adam.zero_grad()
        loss.backward()
        clip_grad_norm(self.model.parameters(), 1)
        self.adam.step()
        self.schedule.step()
        return loss.item()


def main():
    training = Training()
    for step in range(1, STEPS + 1):
        loss = training.step(training.draw())
        if step % 100 == 0:
            print(f"step {step}: loss {loss:.4f}")
    random, right = RandomStream(1, TEST), 0
    training.model.eval()
    for _ in range(20):
        images, classes = draw(random)
        with torch.no_grad():
            right += (training.model(images).argmax(1) == classes).sum().item()
    print(f"{right / (20 * BATCH):.1%} of {20 * BATCH} new images right")


if __name__ == "__main__":
    main()
