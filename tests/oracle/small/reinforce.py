"""The twin of examples/small/reinforce.cpp."""
import torch
from torch import nn
from torch.nn import functional as F

from common import SAMPLING, RandomStream, clip_grad_norm

SIDE, ACTIONS, LONGEST, EPISODES, UPDATES, DISCOUNT = 5, 4, 40, 16, 150, 0.97
PLACES = SIDE * SIDE


def moved(place, action):
    x = place % SIDE + (action == 0) - (action == 1)
    y = place // SIDE + (action == 2) - (action == 3)
    is_wall = x == 2 and y != SIDE - 1
    return y * SIDE + x if 0 <= x < SIDE and 0 <= y < SIDE and not is_wall else place


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor, self.critic = nn.Linear(PLACES, ACTIONS), nn.Linear(PLACES, 1)

    def forward(self, places):
        x = F.one_hot(places, PLACES).to(self.actor.weight.dtype)
        return self.actor(x), self.critic(x)[:, 0]


def sample(scores, random):
    weights = (scores - scores.max()).double().exp().tolist()
    left = random.uniform() * sum(weights)
    for action, weight in enumerate(weights):
        left -= weight
        if left < 0:
            return action
    return ACTIONS - 1


@torch.no_grad()
def play(agent, random):
    place, places, actions = 0, [], []
    while place != PLACES - 1 and len(places) < LONGEST:
        places.append(place)
        actions.append(sample(agent(torch.tensor([place]))[0][0], random))
        place = moved(place, actions[-1])
    returns, worth = [], 0
    for _ in places:
        worth = DISCOUNT * worth - 1
        returns.insert(0, worth)
    return places, actions, returns


class Training:
    def __init__(self):
        self.model, self.random = Agent(), RandomStream(1, SAMPLING)
        self.adam = torch.optim.Adam([{"params": self.model.actor.parameters()},
                                      {"params": self.model.critic.parameters(), "lr": 4 * 0.05}], 0.05)

    def draw(self):
        episodes = [play(self.model, self.random) for _ in range(EPISODES)]
        places, actions, returns = (torch.tensor([x for part in parts for x in part]) for parts in zip(*episodes))
        with torch.no_grad():
            return places, actions, returns, returns - self.model(places)[1]

    def step(self, memory):
        places, actions, returns, advantages = memory
        scores, values = self.model(places)
        log_p = scores.log_softmax(1)
        surprise = -(log_p.exp() * log_p).sum(1).mean()
        loss = -(log_p.gather(1, actions[:, None])[:, 0] * advantages).mean() - 0.05 * surprise
        self.adam.zero_grad()
        (loss + 0.5 * F.mse_loss(values, returns)).backward()
        clip_grad_norm(list(self.model.parameters()), 1)
        self.adam.step()
        return loss.item()


def main():
    training = Training()
    for update in range(1, UPDATES + 1):
        memory = training.draw()
        loss = training.step(memory)
        if update % 50 == 0:
            print(f"update {update}: {len(memory[0]) / EPISODES:.1f} steps an episode, the policy's loss {loss:.3f}")
    place, steps = 0, 0
    while place != PLACES - 1 and steps < LONGEST:
        place, steps = moved(place, training.model(torch.tensor([place]))[0].argmax().item()), steps + 1
    print(f"the best way found takes {steps} steps")


if __name__ == "__main__":
    main()
