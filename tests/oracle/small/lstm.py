"""The twin of examples/small/lstm.cpp."""
import torch
from torch import nn
from torch.nn import functional as F

from common import DATA, TEST, RandomStream, clip_grad_norm

STREAMS, STEPS, SYMBOLS, HIDDEN = 16, 16, 8, 32


class Streams:
    def __init__(self, purpose):
        self.random, self.seen = RandomStream(1, purpose), [(0, 0)] * STREAMS

    def next(self):
        shown, asked = [], []
        for _ in range(STEPS):
            for i, (last, _) in enumerate(self.seen):
                shows = self.random.below(8) == 0
                if shows:
                    self.seen[i] = self.random.below(SYMBOLS), last
                shown.append(self.seen[i][0] if shows else SYMBOLS)
                asked.append(self.seen[i][1])
        return torch.tensor(shown).view(STEPS, STREAMS), torch.tensor(asked)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS + 1, HIDDEN)
        self.lstm = nn.LSTM(HIDDEN, HIDDEN)
        self.output = nn.Linear(HIDDEN, SYMBOLS)

    def forward(self, shown, state):
        h, state = self.lstm(self.embedding(shown), state)
        return self.output(h.flatten(0, 1)), state


class Training:
    def __init__(self):
        self.model, self.streams, self.state = Model(), Streams(DATA), None
        self.adam = torch.optim.AdamW(self.model.parameters(), 0.01, weight_decay=0)

    def draw(self):
        return self.streams.next()

    def step(self, batch):
        shown, asked = batch
        logits, state = self.model(shown, self.state)
        self.state = [x.detach() for x in state]
        loss = F.cross_entropy(logits, asked)
        self.adam.zero_grad()
        loss.backward()
        clip_grad_norm(self.model.parameters(), 1)
        self.adam.step()
        return loss.item()


@torch.no_grad()
def right(model, carries):
    streams, state, hits = Streams(TEST), None, []
    for window in range(50):
        shown, asked = streams.next()
        logits, state = model(shown, state if carries else None)
        if window >= 5:
            hits.append((logits.argmax(1) == asked).double())
    return torch.cat(hits).mean().item()


if __name__ == "__main__":
    training = Training()
    for step in range(1, 601):
        loss = training.step(training.draw())
        if step % 100 == 0:
            print(f"step {step}: loss {loss:.4f}")
    print(f"the last symbol but one is known {right(training.model, True):.1%} of the time; "
          f"{right(training.model, False):.1%} if each window starts anew")
