// Reinforcement learning: REINFORCE (Williams 1992) with a critic as baseline. A walker on a grid of 5 x 5 learns the
// way to the opposite corner around a wall; each step costs 1. Actor and critic are scopes of one Parameters; each
// update has a loss for either. docs/reinforcement-learning.md walks through it. Takes one second.
#include <seppo/seppo.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <vector>

using namespace seppo;

constexpr int kSide = 5, kPlaces = kSide * kSide, kActions = 4, kLongest = 40, kEpisodes = 16, kUpdates = 150;
constexpr double kDiscount = 0.97;

// Where an action leads: east, west, south or north, unless the border or the wall stops it.
int moved(int place, int action) {
  const int x = place % kSide + (action == 0) - (action == 1);
  const int y = place / kSide + (action == 2) - (action == 3);
  const bool is_wall = x == 2 && y != kSide - 1;
  const bool is_outside = x < 0 || x >= kSide || y < 0 || y >= kSide;
  return is_wall || is_outside ? place : y * kSide + x;
}

struct Agent {
  explicit Agent(const Scope& s) : actor(s / "actor", kPlaces, kActions), critic(s / "critic", kPlaces, 1) {}

  Tensor scores(List<int> places) const { return actor(one_hot(places, kPlaces)); }   // [places, actions]
  Tensor values(List<int> places) const { return critic(one_hot(places, kPlaces)); }  // [places, 1]

  Linear actor, critic;
};

// What was done where, and what it was worth.
struct Batch {
  std::vector<int> places, actions;
  std::vector<double> returns, advantages;
};

void play(const Agent& agent, RandomStream& random, Batch& memory) {
  const std::size_t begin = memory.places.size();
  for (int place = 0, step = 0; place != kPlaces - 1 && step < kLongest; ++step) {
    const Inference inference;
    const int action = sample_token(agent.scores({place}).values(), {}, random);
    memory.places.push_back(place);
    memory.actions.push_back(action);
    place = moved(place, action);
  }
  const std::size_t end = memory.places.size();
  memory.returns.resize(end);
  memory.advantages.resize(end);
  double worth = 0;  // of all that follows
  const Inference inference;
  for (std::size_t i = end; i-- > begin;) {
    worth = kDiscount * worth - 1;
    memory.returns[i] = worth;
    memory.advantages[i] = worth - double{agent.values({memory.places[i]}).item()};
  }
}

template <class T>
std::vector<T> picked(const std::vector<T>& from, std::span<const int> rows) {
  std::vector<T> some;
  for (const int row : rows) some.push_back(from[static_cast<std::size_t>(row)]);
  return some;
}

struct Training {
  Batch draw() {
    Batch memory;
    for (int episode = 0; episode < kEpisodes; ++episode) play(agent, random, memory);
    return memory;
  }

  // Returns the loss of the policy: of the return and of the entropy, for each move.
  double step(const Batch& memory) {
    const auto policy_loss = [&](std::span<const int> rows) {
      const std::size_t n = rows.size();
      const Tensor log_p = log_softmax(agent.scores(picked(memory.places, rows)));
      const Tensor chosen = gather(log_p, 1, {{n, 1}, picked(memory.actions, rows)});
      const Tensor advantages = tensor({n, 1}, picked(memory.advantages, rows));
      const Tensor surprise = -sum(exp(log_p) * log_p);  // the entropy, rewarded a little
      return ShardLoss{-sum(chosen * advantages) - 0.05 * surprise, n};
    };
    const auto value_loss = [&](std::span<const int> rows) {
      const std::size_t n = rows.size();
      const Tensor returns = tensor({n, 1}, picked(memory.returns, rows));
      const Tensor loss = mse_loss(agent.values(picked(memory.places, rows)), returns, Reduction::sum);
      return ShardLoss{loss, n};
    };
    std::vector<int> rows(memory.places.size());
    std::iota(rows.begin(), rows.end(), 0);
    return trainer.step({{rows, policy_loss}, {rows, value_loss, 0.5}}).losses[0];
  }

  Parameters parameters{/*seed=*/1};
  Agent agent{parameters.root()};
  Trainer trainer{parameters, {.lr = 0.05}, {{.prefix = "critic.", .lr = 4}}};
  RandomStream random{/*seed=*/1, Purpose::sampling};
};

int main() {
  Training training;
  for (int update = 1; update <= kUpdates; ++update) {
    const Batch memory = training.draw();
    const double loss = training.step(memory);
    if (update % 50 == 0)
      std::printf("update %d: %.1f steps an episode, the policy's loss %.3f\n", update,
                  static_cast<double>(memory.places.size()) / kEpisodes, loss);
  }

  const Inference inference;
  int steps = 0;
  for (int place = 0; place != kPlaces - 1 && steps < kLongest; ++steps)
    place = moved(place, argmax(training.agent.scores({place}))[0]);
  std::printf("the best way found takes %d steps\n", steps);
  return steps == 2 * (kSide - 1) ? 0 : 1;
}
