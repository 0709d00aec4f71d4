"""The twin of examples/small/resume.cpp."""
import copy, math, os

import torch
from torch import nn
from torch.nn import functional as F

from common import DATA, TEST, RandomStream, Sampler, dropout

EXAMPLES, STEPS, HIDDEN, WARMUP = 500, 600, 64, 20


def examples(rows, purpose):
    x, y = [], []
    for row in rows:
        random = RandomStream(1, purpose, row)
        east, north = 2 * random.uniform() - 1, 2 * random.uniform() - 1
        x.append([east, north])
        y.append([math.sin(3 * east) * math.cos(2 * north)])
    return torch.tensor(x), torch.tensor(y)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.mid, self.last = nn.Linear(2, HIDDEN), nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, 1)

    def forward(self, x, step=None):
        hidden = F.relu(self.mid(F.relu(self.first(x))))
        return self.last(hidden if step is None else dropout(hidden, 0.02, seed=1, step=step))


class Training:
    def __init__(self):
        self.model, self.steps, self.sampler = Model(), 0, Sampler(EXAMPLES, 50)
        self.adam = torch.optim.Adam(self.model.parameters(), 0.01)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.adam, self.rate)

    @staticmethod
    def rate(done):
        step = done + 1
        progress = max(0, step - WARMUP) / (STEPS - WARMUP)
        return min(1, step / WARMUP) * 0.5 * (1 + math.cos(math.pi * progress))

    def draw(self):
        return examples(self.sampler.next(), DATA)

    def step(self, batch):
        loss = F.mse_loss(self.model(batch[0], self.steps), batch[1])
        self.adam.zero_grad()
        loss.backward()
        self.adam.step()
        self.schedule.step()
        self.steps += 1
        return loss.item()

    def run_to(self, end):
        while self.steps < end:
            loss = self.step(self.draw())
        return loss

    def save(self, file):
        torch.save({"model": self.model.state_dict(), "adam": self.adam.state_dict(),
                    "schedule": self.schedule.state_dict(), "steps": self.steps}, file)

    def load(self, file):
        state = torch.load(file)
        for part in ("model", "adam", "schedule"):
            getattr(self, part).load_state_dict(state[part])
        self.steps = state["steps"]
        self.sampler.seek(self.steps)


def main():
    torch.manual_seed(1)
    whole = Training()
    start = copy.deepcopy(whole.model.state_dict())
    print(f"trained {STEPS} steps at a stretch: loss {whole.run_to(STEPS):.5f}")
    for stop in (1, 137, 599):
        training = Training()
        training.model.load_state_dict(start)
        training.run_to(stop)
        training.save("resume.pt")
        training = Training()
        training.load("resume.pt")
        training.run_to(STEPS)
        same = all(torch.equal(a, b) for a, b in zip(whole.model.parameters(), training.model.parameters()))
        print(f"stopped after {stop} steps and continued: {'the same bytes' if same else 'other bytes'}")
    os.remove("resume.pt")
    x, y = examples(range(200), TEST)
    with torch.no_grad():
        print(f"mean squared error at 200 new places: {F.mse_loss(whole.model(x), y):.5f}")


if __name__ == "__main__":
    main()
