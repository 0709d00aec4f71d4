"""The twin of examples/small/second_derivatives.cpp."""
import torch
from torch import nn
from torch.nn import functional as F

from common import DATA, RandomStream

ROWS, PENALTY = 64, 10


def normal(shape, index, shift=0):
    random = RandomStream(1, DATA, index)
    return torch.tensor([random.normal() for _ in range(torch.Size(shape).numel())]).view(shape) + shift


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = nn.Linear(2, 16), nn.Linear(16, 1)

    def forward(self, x):
        return self.out(F.silu(self.hidden(x)))


class Training:
    def __init__(self):
        self.model, self.drawn = Critic(), 0
        self.adam = torch.optim.Adam(self.model.parameters(), 0.01)

    def draw(self):
        self.drawn += 2
        return normal((ROWS, 2), self.drawn - 2, 1), normal((ROWS, 2), self.drawn - 1, -1)

    def step(self, batch):
        given, made = batch
        x = ((given + made) / 2).requires_grad_()
        slopes, = torch.autograd.grad(self.model(x).sum(), x, create_graph=True)
        lengths = slopes.norm(dim=1)
        loss = self.model(made).mean() - self.model(given).mean() + PENALTY * (lengths - 1).square().mean()
        self.adam.zero_grad()
        loss.backward()
        self.adam.step()
        self.slope = lengths.mean().item()
        return loss.item()


def gradient_of(model, loss, create_graph=False):
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss(), list(model.parameters()), create_graph=create_graph)])


def hessian_vector_product(model, loss, v):
    slope = gradient_of(model, loss, create_graph=True) @ v
    return torch.cat([g.flatten() for g in torch.autograd.grad(slope, list(model.parameters()))])


def sharpness(model, loss):
    v = normal((sum(p.numel() for p in model.parameters()),), 0)
    for _ in range(30):
        v = v / v.norm()
        product = hessian_vector_product(model, loss, v)
        eigenvalue, v = v @ product, product
    return eigenvalue.item()


def solve(model, loss, b):
    d, rest, v = torch.zeros_like(b), b, b
    left = rest @ rest
    while left > 1e-20 * (b @ b):
        product = hessian_vector_product(model, loss, v)
        step, before = left / (v @ product), left
        d, rest = d + step * v, rest - step * product
        left = rest @ rest
        v = rest + left / before * v
    return d


def main():
    torch.set_default_dtype(torch.float64)
    line = nn.Linear(2, 1)
    for p in line.parameters():
        nn.init.zeros_(p)
    x = torch.cat([normal((50, 2), 1, -0.7), normal((50, 2), 2, 0.7)])
    labels = torch.cat([torch.zeros(50, 1), torch.ones(50, 1)])
    loss = lambda: F.binary_cross_entropy_with_logits(line(x), labels)
    print(f"sharpness at the start: {sharpness(line, loss):.4f}")
    for step in range(7):
        gradient = gradient_of(line, loss)
        print(f"Newton step {step}: |gradient| {gradient.norm():.1e}")
        nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(line.parameters()).detach() -
                                      solve(line, loss, gradient), line.parameters())
    training = Training()
    for _ in range(400):
        training.step(training.draw())
    print(f"critic: mean slope {training.slope:.3f} between the clouds")


if __name__ == "__main__":
    main()
