"""The twin of examples/small/graph_attention.cpp."""
import torch
from torch import nn
from torch.nn import functional as F

from common import DATA, TEST, RandomStream

NODES, GROUPS, NEIGHBOURS, HEADS, WIDTH = 128, 4, 6, 4, 8
FEATURES = GROUPS + 1


def draw(random):
    source, target, features = [], [], []
    for node in range(NODES):
        group, is_noise = node % GROUPS, random.below(2) == 0
        features += [2 * random.normal() if is_noise else (g == group) + 0.5 * random.normal() for g in range(GROUPS)]
        features.append(float(is_noise))
        source.append(node)
        for _ in range(NEIGHBOURS):
            is_any = random.below(4) == 0
            source.append(random.below(NODES) if is_any else random.below(NODES // GROUPS) * GROUPS + group)
        target += [node] * (1 + NEIGHBOURS)
    return (torch.tensor(source), torch.tensor(target),
            torch.tensor(features, dtype=torch.get_default_dtype()).view(NODES, FEATURES))


class GraphAttention(nn.Module):
    def __init__(self, width_in):
        super().__init__()
        self.values = nn.Linear(width_in, HEADS * WIDTH, bias=False)
        self.source = nn.Parameter(0.3 * torch.randn(HEADS, WIDTH))
        self.target = nn.Parameter(0.3 * torch.randn(HEADS, WIDTH))

    def forward(self, x, source, target):
        h = self.values(x).view(-1, HEADS, WIDTH)
        scores = F.leaky_relu((h * self.source).sum(-1)[source] + (h * self.target).sum(-1)[target], 0.2)
        index = target[:, None].expand_as(scores)
        largest = torch.full((len(x), HEADS), -torch.inf).scatter_reduce(0, index, scores, "amax")
        e = (scores - largest.detach()[target]).exp()
        weights = e / torch.zeros(len(x), HEADS).index_add(0, target, e)[target]
        return torch.zeros_like(h).index_add(0, target, weights[..., None] * h[source]).flatten(1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = GraphAttention(FEATURES), GraphAttention(HEADS * WIDTH)
        self.out = nn.Linear(HEADS * WIDTH, GROUPS)

    def forward(self, source, target, features):
        x = F.elu(self.first(features, source, target))
        return self.out(F.elu(self.second(x, source, target)))


GROUPS_OF_NODES = torch.arange(NODES) % GROUPS


class Training:
    def __init__(self):
        self.model, self.random = Model(), RandomStream(1, DATA)
        self.adam = torch.optim.AdamW(self.model.parameters(), 0.005, weight_decay=0)

    def draw(self):
        return draw(self.random)

    def step(self, graph):
        loss = F.cross_entropy(self.model(*graph), GROUPS_OF_NODES)
        self.adam.zero_grad()
        loss.backward()
        self.adam.step()
        return loss.item()


if __name__ == "__main__":
    training = Training()
    for step in range(1, 601):
        loss = training.step(training.draw())
        if step % 200 == 0:
            print(f"step {step}: loss {loss:.4f}")
    random = RandomStream(1, TEST)
    with torch.no_grad():
        right = [(training.model(*draw(random)).argmax(1) == GROUPS_OF_NODES).double().mean().item() for _ in range(20)]
    print(f"{sum(right) / 20:.1%} of the nodes of new graphs are known")
