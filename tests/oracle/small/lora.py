"""The twin of examples/small/lora.cpp."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from common import DATA, TEST, RandomStream

BATCH, HIDDEN, CLASSES, RANK, TURN = 64, 64, 4, 2, 0.5


def draw(random, turn):
    points, classes = [], []
    for _ in range(BATCH):
        x, y = random.normal(), random.normal()
        angle = (math.atan2(y, x) + math.hypot(x, y) + turn) * CLASSES / (2 * math.pi)
        points.append([x, y])
        classes.append(math.floor(angle) % CLASSES)
    return torch.tensor(points), torch.tensor(classes)


class Lora(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.a = nn.Parameter(torch.randn(RANK, inputs) / math.sqrt(inputs))
        self.b = nn.Parameter(torch.zeros(outputs, RANK))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = {"first": (2, HIDDEN), "mid": (HIDDEN, HIDDEN), "out": (HIDDEN, CLASSES)}
        for name, (inputs, outputs) in sizes.items():
            setattr(self, name, nn.Linear(inputs, outputs))
        self.lora = nn.ModuleDict({name: Lora(*size) for name, size in sizes.items()})

    def adapted(self, name, x):
        base, lora = getattr(self, name), self.lora[name]
        return F.linear(x, base.weight + lora.b @ lora.a, base.bias)

    def forward(self, x):
        return self.adapted("out", F.relu(self.adapted("mid", F.relu(self.adapted("first", x)))))


class Training:
    def __init__(self, is_trained=True):
        self.model, self.random = Classifier(), RandomStream(1, DATA)
        base = [p for n, p in self.model.named_parameters() if not n.startswith("lora.")]
        first = torch.optim.Adam(base, 3e-3)
        for _ in range(1000):  # base weights come from seppo's file; draw the data that trained them
            batch = draw(self.random, 0)
            if not is_trained:
                self.learn(first, batch)
        for p in base:
            p.requires_grad_(False)
        self.adam = torch.optim.Adam(self.model.lora.parameters(), 3e-3)

    def draw(self):
        return draw(self.random, TURN)

    def step(self, batch):
        return self.learn(self.adam, batch)

    def learn(self, adam, batch):
        adam.zero_grad()
        loss = F.cross_entropy(self.model(batch[0]), batch[1])
        loss.backward()
        adam.step()
        return loss.item()

    def right(self, turn):
        random, right = RandomStream(1, TEST), 0
        for _ in range(50):
            points, classes = draw(random, turn)
            with torch.no_grad():
                right += (self.model(points).argmax(1) == classes).float().mean().item()
        return 100 * right / 50


def main():
    training = Training(is_trained=False)
    print(f"trained: {training.right(0):.1f} % of its task, {training.right(TURN):.1f} % of the other")
    for _ in range(1000):
        training.step(training.draw())
    count = sum(p.numel() for p in training.model.lora.parameters())
    print(f"adapted: {training.right(TURN):.1f} % of the other, by {count} parameters")


if __name__ == "__main__":
    main()
