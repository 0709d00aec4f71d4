"""The twin of examples/small/vae.cpp."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from common import DATA, TEST, RandomStream

BATCH, SIDE, HIDDEN, LATENT = 64, 8, 64, 2


def draw(random):
    images = []
    for _ in range(BATCH):
        x, y = 1 + 5 * random.uniform(), 1 + 5 * random.uniform()
        images.append([math.exp(-0.5 * ((col - x) ** 2 + (row - y) ** 2)) for row in range(SIDE) for col in range(SIDE)])
    noise = [[random.normal() for _ in range(LATENT)] for _ in range(BATCH)]
    return torch.tensor(images), torch.tensor(noise)


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.read, self.place = nn.Linear(SIDE * SIDE, HIDDEN), nn.Linear(HIDDEN, 2 * LATENT)
        self.write, self.paint = nn.Linear(LATENT, HIDDEN), nn.Linear(HIDDEN, SIDE * SIDE)

    def encode(self, images):
        return self.place(torch.tanh(self.read(images))).chunk(2, 1)

    def decode(self, z):
        return self.paint(torch.tanh(self.write(z)))


def bound(model, batch):
    images, noise = batch
    mean, log_variance = model.encode(images)
    z = mean + torch.exp(0.5 * log_variance) * noise
    divergence = 0.5 * (log_variance.exp() + mean.square() - 1 - log_variance).sum()
    reconstruction = SIDE * SIDE * F.binary_cross_entropy_with_logits(model.decode(z), images)
    return reconstruction, divergence / BATCH


class Training:
    def __init__(self):
        self.model, self.random = Autoencoder(), RandomStream(1, DATA)
        self.adam = torch.optim.Adam(self.model.parameters(), 3e-3)

    def draw(self):
        return draw(self.random)

    def step(self, batch):
        loss = sum(bound(self.model, batch))
        self.adam.zero_grad()
        loss.backward()
        self.adam.step()
        return loss.item()


@torch.no_grad()
def main():
    training = Training()
    for step in range(1, 2001):
        with torch.enable_grad():
            loss = training.step(training.draw())
        if step % 500 == 0:
            print(f"step {step}: {loss:.3f} nats per image")
    batch = draw(RandomStream(1, TEST))
    drawn = torch.sigmoid(training.model.decode(training.model.encode(batch[0])[0]))
    explained = 1 - F.mse_loss(drawn, batch[0]) / batch[0].var(0, unbiased=False).mean()
    print(f"{explained:.1%} of the variance explained by {bound(training.model, batch)[1]:.2f} nats")
    for x in (-1.0, 0.0, 1.0):
        image = torch.sigmoid(training.model.decode(torch.tensor([[x, 0.0]]))).view(SIDE, SIDE)
        for row in image.tolist():
            print("".join(" .:o@"[int(4.99 * pixel)] for pixel in row))


if __name__ == "__main__":
    main()
