"""The twin of examples/small/lstm.cpp."""
import torch
from torch import nn
from torch.nn import functional as F

from common import DATA, TEST, RandomStream, clip_grad_norm

STREAMS, STEPS, SYMBOLS, HIDDEN = 16, 16, 8, 32


class Streams:
    def __init__(self, purpose):
        self.random, self.last = RandomStream(1, purpose), [0] * STREAMS

    def next(self):
        shown, last = [], []
        for _ in range(STEPS):
            for i in range(STREAMS):
                shows = self.random.below(16) == 0
                if shows:
                    self.last[i] = self.random.below(SYMBOLS)
                shown.append(self.last[i] if shows else SYMBOLS)
                last.append(self.last[i])
        return torch.tensor(shown).view(STEPS, STREAMS), torch.tensor(last)


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
        shown, last = batch
        logits, state = self.model(shown, self.state)
        self.state = [x.detach() for x in state]
        loss = F.cross_entropy(logits, last)
        self.adam.zero_grad()
        loss.backward()
        clip_grad_norm(self.model.parameters(), 1)
        self.adam.step()
        return loss.item()


@torch.no_grad()
def right(model, carries):
    streams, state, hits = Streams(TEST), None, []
    for window in range(50):
        shown, last = streams.next()
        logits, state = model(shown, state if carries else None)
        if window >= 5:
            hits.append((logits.argmax(1) == last).double())
    return torch.cat(hits).mean().item()


if __name__ == "__main__":
    training = Training()
    for step in range(1, 401):
        loss = training.step(training.draw())
        if step % 100 == 0:
            print(f"step {step}: loss {loss:.4f}")
    print(f"the last symbol is known {right(training.model, True):.1%} of the time; "
          f"{right(training.model, False):.1%} if each window starts anew")
