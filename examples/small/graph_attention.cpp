// Graph attention (Velickovic et al. 2018): each node of a graph learns the group that it belongs to from its
// neighbours. Half of the nodes show nothing but noise, and say so; a node must attend to the others. The softmax of
// each node's edges is index_softmax, and their sum index_add. Takes half a second.
#include <seppo/autograd/ops.h>
#include <seppo/nn/init.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/optim/adam.h>

#include <algorithm>
#include <cstdio>
#include <vector>

using namespace seppo;

constexpr int kNodes = 128, kGroups = 4, kNeighbours = 6, kFeatures = kGroups + 1, kHeads = 4, kWidth = 8;
constexpr real kSlope = real(0.2);  // of leaky ReLU below zero

struct Batch {                   // one graph
  std::vector<int> from, to;     // of each edge; every node has one from itself, too
  std::vector<double> features;  // [nodes, features]: what a node shows of its group, and whether that is noise
  std::vector<int> groups;       // [nodes]
};

Batch draw(RandomStream& random) {
  Batch graph;
  for (int node = 0; node < kNodes; ++node) {
    const int group = node % kGroups;
    const bool is_noise = random.index(2) == 0;
    for (int g = 0; g < kGroups; ++g)
      graph.features.push_back(is_noise ? 2 * random.normal() : (g == group) + 0.5 * random.normal());
    graph.features.push_back(is_noise);
    graph.groups.push_back(group);
    graph.from.push_back(node);
    graph.to.push_back(node);
    for (int i = 0; i < kNeighbours; ++i) {  // three of four are drawn from its own group
      const int other = random.index(4) == 0 ? random.index(kNodes) : random.index(kNodes / kGroups) * kGroups + group;
      graph.from.push_back(other);
      graph.to.push_back(node);
    }
  }
  return graph;
}

// y_i = sum over edges j -> i of a_ij W x_j, where a_ij is the softmax over j of leaky ReLU(s . W x_j + t . W x_i), for
// each head by itself.
struct GraphAttention {
  GraphAttention(const Scope& s, int in)
      : values(s / "values", in, kHeads * kWidth, {.bias = false}),
        source(s.parameter("source", {kHeads, kWidth}, init_normal(0.3))),
        target(s.parameter("target", {kHeads, kWidth}, init_normal(0.3))) {}

  Tensor operator()(const Tensor& x, const Batch& graph) const {  // [nodes, in] -> [nodes, heads * width]
    const Tensor h = reshape(values(x), {x.size(0), kHeads, kWidth});
    const Tensor of_source = sum(h * source, -1), of_target = sum(h * target, -1);  // [nodes, heads]
    const Tensor scores = index_select(of_source, 0, graph.from) + index_select(of_target, 0, graph.to);
    const Tensor weights = index_softmax(maximum(scores, scores * kSlope), 0, graph.to);  // [edges, heads]
    const Tensor messages = unsqueeze(weights, 2) * index_select(h, 0, graph.from);
    return reshape(index_add(zeros_like(h), 0, graph.to, messages), {x.size(0), kHeads * kWidth});
  }

  Linear values;
  Tensor source, target;
};

struct Model {
  explicit Model(const Scope& s)
      : first(s / "first", kFeatures),
        second(s / "second", kHeads * kWidth),
        out(s / "out", kHeads * kWidth, kGroups) {}

  Tensor operator()(const Batch& graph) const {  // -> logits [nodes, groups]
    const Tensor x = tensor({kNodes, kFeatures}, graph.features);
    return out(elu(second(elu(first(x, graph)), graph)));
  }

  GraphAttention first, second;
  Linear out;
};

struct Training {
  Batch draw() { return ::draw(random); }
  double step(const Batch& graph) {
    tape().clear();
    const Tensor loss = cross_entropy(model(graph), graph.groups);
    backward(loss);
    adam.step(0.005);
    return loss.item();
  }

  Parameters parameters{/*seed=*/1};
  Model model{parameters.root()};
  Adam adam{parameters};
  RandomStream random{/*seed=*/1, Purpose::data};
};

int main() {
  Training training;
  for (int step = 1; step <= 600; ++step) {
    const double loss = training.step(training.draw());
    if (step % 200 == 0) std::printf("step %d: loss %.4f\n", step, loss);
  }
  const Inference inference;
  RandomStream random(/*seed=*/1, Purpose::test);
  constexpr int kGraphs = 20;
  int right = 0, shown = 0;  // `shown`: by the largest feature, without neighbours
  for (int n = 0; n < kGraphs; ++n) {
    const Batch graph = draw(random);
    const std::vector<int> guesses = argmax(training.model(graph));
    for (std::size_t node = 0; node < kNodes; ++node) {
      const auto features = graph.features.begin() + static_cast<std::ptrdiff_t>(node * kFeatures);
      right += guesses[node] == graph.groups[node];
      shown += std::max_element(features, features + kGroups) - features == graph.groups[node];
    }
  }
  constexpr double kAll = kGraphs * kNodes;
  std::printf("%.1f %% of the nodes of new graphs are known; %.1f %% by what they show alone\n", 100 * right / kAll,
              100 * shown / kAll);
  return right > 0.85 * kAll ? 0 : 1;
}
