"""The twin of examples/small/conv.cpp."""
import torch
from torch import nn
from torch.nn import functional as F

from common import DATA, TEST, RandomStream

BATCH, SIDE, HEIGHT, WIDTH = 32, 12, 5, 3
FONT = [0x7B6F, 0x2C97, 0x73E7, 0x73CF, 0x5BC9, 0x79CF, 0x79EF, 0x7249, 0x7BEF, 0x7BCF]


def draw(random):
    images, digits = [], []
    for _ in range(BATCH):
        digit, top, left = random.below(10), random.below(SIDE - HEIGHT + 1), random.below(SIDE - WIDTH + 1)
        for row in range(SIDE):
            for col in range(SIDE):
                y, x = row - top, col - left
                is_inside = 0 <= y < HEIGHT and 0 <= x < WIDTH
                is_ink = is_inside and FONT[digit] >> (HEIGHT * WIDTH - 1 - (y * WIDTH + x)) & 1
                images.append(is_ink + 0.2 * random.normal())
        digits.append(digit)
    return torch.tensor(images).view(BATCH, 1, SIDE, SIDE), torch.tensor(digits)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(1, 16, 3, bias=False), nn.BatchNorm2d(16)
        self.conv2, self.norm2 = nn.Conv2d(16, 64, 3, bias=False), nn.BatchNorm2d(64)
        self.output = nn.Linear(64, 10)

    def forward(self, images):
        x = F.max_pool2d(F.relu(self.norm1(self.conv1(images))), 2)
        return self.output(F.relu(self.norm2(self.conv2(x))).amax((2, 3)))


class Training:
    def __init__(self):
        self.model, self.random = Model(), RandomStream(1, DATA)
        self.adam = torch.optim.Adam(self.model.parameters(), 0.01)

    def draw(self):
        return draw(self.random)

    def step(self, batch):
        loss = F.cross_entropy(self.model(batch[0]), batch[1])
        self.adam.zero_grad()
        loss.backward()
        self.adam.step()
        return loss.item()


def main():
    training = Training()
    for step in range(1, 601):
        loss = training.step(training.draw())
        if step % 100 == 0:
            print(f"step {step}: loss {loss:.4f}")
    random, right = RandomStream(1, TEST), 0
    training.model.eval()
    for _ in range(20):
        images, digits = draw(random)
        with torch.no_grad():
            right += (training.model(images).argmax(1) == digits).sum().item()
    print(f"{right / (20 * BATCH):.1%} of {20 * BATCH} new digits right")


if __name__ == "__main__":
    main()
