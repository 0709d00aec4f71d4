"""The twin of examples/small/ctc.cpp."""
import torch
from torch import nn
from torch.nn import functional as F

from common import DATA, TEST, RandomStream

BATCH, SYMBOLS, LONGEST, HIDDEN = 16, 5, 6, 64
CLASSES, FRAMES = 1 + SYMBOLS, 5 * LONGEST


def draw(random):
    frames, lengths, texts = torch.zeros(BATCH, FRAMES + 2, SYMBOLS), [], []
    for n in range(BATCH):
        text, shown = [0] * (3 + random.below(LONGEST - 2)), []
        for i in range(len(text)):
            text[i] = 1 + random.below(SYMBOLS)
            shown += [0] * (1 + random.below(2))
            shown += [text[i]] * (1 + random.below(3))
        values = [[(there == symbol) + 0.15 * random.normal() for symbol in range(1, CLASSES)] for there in shown]
        frames[n, 1:len(shown) + 1] = torch.tensor(values)
        lengths.append(len(shown))
        texts.append(text)
    return frames, lengths, texts


def ctc_loss(log_probabilities, lengths, texts):
    sizes = [len(text) for text in texts]
    return F.ctc_loss(log_probabilities, torch.tensor(sum(texts, [])), lengths, sizes, reduction="sum")


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(3 * SYMBOLS, HIDDEN)
        self.out = nn.Linear(HIDDEN, CLASSES)

    def forward(self, frames):
        windows = frames.unfold(1, 3, 1).flatten(2)
        return F.log_softmax(self.out(F.relu(self.hidden(windows))), -1).transpose(0, 1)


class Training:
    def __init__(self):
        self.model, self.random = Reader(), RandomStream(1, DATA)
        self.adam = torch.optim.Adam(self.model.parameters(), 0.01)

    def draw(self):
        return draw(self.random)

    def step(self, batch):
        frames, lengths, texts = batch
        loss = ctc_loss(self.model(frames), lengths, texts) / BATCH
        self.adam.zero_grad()
        loss.backward()
        self.adam.step()
        return loss.item()


if __name__ == "__main__":
    training = Training()
    for step in range(1, 401):
        loss = training.step(training.draw())
        if step % 100 == 0:
            print(f"step {step}: loss {loss:.4f}")
    random, right = RandomStream(1, TEST), 0
    for _ in range(25):
        frames, lengths, texts = draw(random)
        with torch.no_grad():
            likeliest = training.model(frames).argmax(-1).T
        for row, text in zip(likeliest, texts):
            right += [c for c in torch.unique_consecutive(row).tolist() if c != 0] == text
    frames, lengths, texts = draw(random)
    lengths[0] = 2  # too few for its text
    scores = torch.zeros(FRAMES, BATCH, CLASSES, requires_grad=True)
    loss = ctc_loss(F.log_softmax(scores, -1), lengths, texts)
    loss.backward()
    print(f"{right / (25 * BATCH):.1%} of new texts are right; of one with too few frames, the loss is {loss.item()}, "
          f"gradients are {'finite' if scores.grad.isfinite().all() else 'not finite'}")
