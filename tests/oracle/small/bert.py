"""The twin of examples/small/bert.cpp."""
import torch
from torch import nn
from torch.nn import functional as F

from common import DATA, TEST, RandomStream, clip_grad_norm

BATCH, HALF, SYMBOLS, D_MODEL, HEADS, HIDDEN, LAYERS = 32, 8, 16, 32, 4, 64, 2
LENGTH, MASK = 2 * HALF, SYMBOLS


def draw(random):
    texts, rows, symbols = [], [], []
    for n in range(BATCH):
        text = [0] * LENGTH
        for left in range(HALF):
            right = LENGTH - 1 - left
            text[left] = text[right] = random.below(SYMBOLS)
            if random.uniform() >= 0.3:
                continue
            chosen = left if random.below(2) == 0 else right
            rows.append(n * LENGTH + chosen)
            symbols.append(text[chosen])
            luck = random.uniform()
            if luck < 0.9:
                text[chosen] = MASK if luck < 0.8 else random.below(SYMBOLS)
        texts.append(text)
    return torch.tensor(texts), torch.tensor(rows), torch.tensor(symbols)


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.positions = nn.Embedding(SYMBOLS + 1, D_MODEL), nn.Embedding(LENGTH, D_MODEL)
        self.segments = nn.Embedding(2, D_MODEL)
        for table in (self.words, self.positions, self.segments):
            nn.init.normal_(table.weight, 0, 0.02)
        self.norm = nn.LayerNorm(D_MODEL, 1e-12)
        layer = nn.TransformerEncoderLayer(D_MODEL, HEADS, HIDDEN, 0, "gelu", 1e-12, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS)

    def forward(self, texts):
        return self.layers(self.norm(self.words(texts) + self.positions.weight + self.segments.weight[0]))


class MaskedHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense, self.norm = nn.Linear(D_MODEL, D_MODEL), nn.LayerNorm(D_MODEL, 1e-12)
        self.bias = nn.Parameter(torch.zeros(SYMBOLS + 1))

    def forward(self, x, words):
        return F.linear(self.norm(F.gelu(self.dense(x))), words.weight, self.bias)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.bert, self.cls = Bert(), MaskedHead()

    def forward(self, texts, rows):
        return self.cls(self.bert(texts).flatten(0, 1)[rows], self.bert.words)


class Training:
    def __init__(self):
        self.model, self.random = Model(), RandomStream(1, DATA)
        self.adam = torch.optim.Adam(self.model.parameters(), 3e-3)

    def draw(self):
        return draw(self.random)

    def step(self, batch):
        texts, rows, symbols = batch
        loss = F.cross_entropy(self.model(texts, rows), symbols)
        self.adam.zero_grad()
        loss.backward()
        clip_grad_norm(list(self.model.parameters()), 1)
        self.adam.step()
        return loss.item()


def main():
    training = Training()
    for step in range(1, 601):
        loss = training.step(training.draw())
        if step % 200 == 0:
            print(f"step {step}: loss {loss:.4f}")
    training.model.eval()
    with torch.no_grad():
        texts, rows, symbols = draw(RandomStream(1, TEST))
        right = (training.model(texts, rows).argmax(1) == symbols).double().mean().item()
    print(f"{right:.1%} of new masks filled in")


if __name__ == "__main__":
    main()
