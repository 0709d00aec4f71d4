"""The twin of examples/small/dpo.cpp."""
import copy

import torch
from torch import nn
from torch.nn import functional as F

from common import DATA, TEST, RandomStream, clip_grad_norm, sinusoid

FIGURES, PROMPT, PAIRS, BETA, LIKELIHOOD = 10, 4, 16, 0.1, 0.1


def draw_prompt(random):
    return [random.below(FIGURES) for _ in range(PROMPT)]


def text_of(prompt, in_words):
    return prompt + [figure + FIGURES * in_words for figure in prompt]


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(2 * FIGURES, 32)
        nn.init.normal_(self.embedding.weight, 0, 0.2)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 1, nn.LayerNorm(32))
        length = 2 * PROMPT - 1
        self.register_buffer("positions", sinusoid(length, 32), persistent=False)
        self.register_buffer("mask", torch.ones(length, length, dtype=torch.bool).triu(1), persistent=False)

    def forward(self, texts):
        x = self.layers(self.embedding(texts[:, :-1]) + self.positions, self.mask)
        scores = F.log_softmax(x @ self.embedding.weight.T, -1)
        return scores.gather(2, texts[:, 1:, None])[:, PROMPT - 1:, 0].sum(1)


class Training:
    def __init__(self):
        self.random, self.model = RandomStream(1, DATA), Policy()
        self.prefer()

    def pretrain(self):
        random, adam = RandomStream(1, DATA, 1), torch.optim.Adam(self.model.parameters(), 3e-3)
        for _ in range(800):
            texts = [text_of(draw_prompt(random), random.below(2) == 0) for _ in range(2 * PAIRS)]
            self.update(adam, -self.model(torch.tensor(texts)).mean(), 1)
        self.prefer()

    def prefer(self):
        self.reference = copy.deepcopy(self.model).requires_grad_(False)
        self.adam = torch.optim.Adam(self.model.parameters(), 5e-4)

    def update(self, adam, loss, most=None):
        adam.zero_grad()
        loss.backward()
        if most:
            clip_grad_norm(self.model.parameters(), most)
        adam.step()

    def draw(self):
        prompts = [draw_prompt(self.random) for _ in range(PAIRS)]
        return torch.tensor([text_of(prompt, in_words) for in_words in (True, False) for prompt in prompts])

    def step(self, pairs):
        scores = self.model(pairs)
        chosen, rejected = (scores - self.reference(pairs)).chunk(2)
        loss = F.softplus(-BETA * (chosen - rejected)).mean() - LIKELIHOOD * scores[:PAIRS].mean()
        self.update(self.adam, loss)
        return loss.item()


@torch.no_grad()
def probability(policy, in_words):
    random = RandomStream(1, TEST)
    return policy(torch.tensor([text_of(draw_prompt(random), in_words) for _ in range(200)])).exp().mean()


def report(when, policy):
    print(f"{when} right in words with probability {probability(policy, True):.3f}, in figures "
          f"{probability(policy, False):.3f}")


def main():
    training = Training()
    training.pretrain()
    report("before:", training.model)
    for step in range(1, 151):
        loss = training.step(training.draw())
        if step % 50 == 0:
            print(f"step {step}: loss {loss:.4f}")
    report("after: ", training.model)


if __name__ == "__main__":
    main()
