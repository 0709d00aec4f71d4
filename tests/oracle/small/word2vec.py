"""The twin of examples/small/word2vec.cpp."""
import torch
from torch import nn
from torch.nn import functional as F

from common import DATA, RandomStream

MEANINGS, WIDTH, TEXTS, LENGTH, WINDOW, NEGATIVES, RARE = 32, 16, 8, 16, 2, 5, 0.25
WORDS = 2 * MEANINGS


def draw_negative(random):
    rare, common = RARE ** 0.75, (1 - RARE) ** 0.75
    meaning = random.below(MEANINGS)
    return 2 * meaning + (random.uniform() < rare / (rare + common))


def draw(random):
    words, beside = [], []
    for _ in range(TEXTS):
        text, meaning = [], random.below(MEANINGS)
        for _ in range(LENGTH):
            meaning = (meaning + 1 + random.below(2)) % MEANINGS
            text.append(2 * meaning + (random.uniform() < RARE))
        for i in range(WINDOW, LENGTH - WINDOW):
            for j in range(i - WINDOW, i + WINDOW + 1):
                if j != i:
                    words.append(text[i])
                    beside.append([text[j], *(draw_negative(random) for _ in range(NEGATIVES))])
    return torch.tensor(words), torch.tensor(beside)


class SkipGram(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.beside = nn.Embedding(WORDS, WIDTH), nn.Embedding(WORDS, WIDTH)
        nn.init.normal_(self.words.weight, 0, 0.3)
        nn.init.zeros_(self.beside.weight)

    def forward(self, words, beside):
        return (self.words(words)[:, None] * self.beside(beside)).sum(-1)


class Training:
    def __init__(self):
        self.model, self.random = SkipGram(), RandomStream(1, DATA)
        self.adam = torch.optim.Adam(self.model.parameters(), 0.01)

    def draw(self):
        return draw(self.random)

    def step(self, batch):
        scores = self.model(*batch)
        is_beside = torch.zeros_like(scores)
        is_beside[:, 0] = 1
        loss = (1 + NEGATIVES) * F.binary_cross_entropy_with_logits(scores, is_beside)
        self.adam.zero_grad()
        loss.backward()
        self.adam.step()
        return loss.item()


def main():
    training = Training()
    for step in range(1, 1501):
        loss = training.step(training.draw())
        if step % 500 == 0:
            print(f"step {step}: loss {loss:.4f}")
    direction = F.normalize(training.model.words.weight.detach())
    nearest = (direction @ direction.T).topk(2).indices[:, 1]
    print(f"the nearest word is the synonym for {(nearest == torch.arange(WORDS) ^ 1).sum()} of {WORDS} words")


if __name__ == "__main__":
    main()
