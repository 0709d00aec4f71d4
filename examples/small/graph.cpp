// A custom observer: Graph, which draws the graph of a computation. Run it as `graph | dot -Tsvg > graph.svg`.
//
// Ops are ellipses, in a box for each module; parameters and other leaves are boxes. Edges carry shapes.
#include <seppo/autograd/core/observer.h>
#include <seppo/autograd/ops.h>
#include <seppo/nn/modules/linear.h>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

using namespace seppo;

class Graph : public Observer {
 public:
  // Called for each op once its output is computed, in the order of the calls.
  void forward(const Tensor& output, std::span<const Tensor> inputs) override {
    std::vector<std::size_t> from;
    for (const Tensor& input : inputs) from.push_back(vertex_of(input));
    const std::size_t to = vertex_of(output);
    const Node& node = output.node();
    vertices_[to] = {node.op, node.region ? *node.region : "", false};
    for (std::size_t i = 0; i < from.size(); ++i) edges_.push_back({from[i], to, inputs[i].shape().str()});
  }

  // The graph in Graphviz's DOT language.
  std::string dot() const {
    std::map<std::string, std::vector<std::size_t>> regions;
    for (std::size_t i = 0; i < vertices_.size(); ++i) regions[vertices_[i].region].push_back(i);
    std::string text = "digraph seppo {\n  rankdir=BT;\n  node [fontname=\"sans-serif\"];\n";
    std::size_t clusters = 0;
    for (const auto& [region, members] : regions) {
      if (!region.empty())
        text +=
            concat_text("  subgraph cluster_", clusters++, " {\n    label=", quoted(region), ";\n    color=gray;\n");
      for (const std::size_t i : members)
        text += concat_text("    n", i, " [label=", quoted(vertices_[i].label),
                            vertices_[i].is_leaf ? ", shape=box, style=filled, fillcolor=lightgray" : "", "];\n");
      if (!region.empty()) text += "  }\n";
    }
    for (const Edge& edge : edges_)
      text += concat_text("  n", edge.from, " -> n", edge.to, " [label=", quoted(edge.shape), "];\n");
    return text + "}\n";
  }

 private:
  struct Vertex {
    std::string label, region;
    bool is_leaf;
  };
  struct Edge {
    std::size_t from, to;
    std::string shape;
  };

  // The memory of nodes is reused: a node and its generation together identify a tensor.
  std::size_t vertex_of(const Tensor& tensor) {
    const Node& node = tensor.node();
    const auto [found, is_new] = indices_.try_emplace({&node, node.generation}, vertices_.size());
    if (is_new) {
      const std::string without_a_name = node.requires_grad ? "variable" : "constant";
      const std::string name = node.name() ? *node.name() : without_a_name;
      vertices_.push_back({name + " " + tensor.shape().str(), "", true});
    }
    return found->second;
  }

  static std::string quoted(const std::string& text) {
    std::string result = "\"";
    for (const char c : text) result += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    return result + '"';
  }

  std::vector<Vertex> vertices_;
  std::vector<Edge> edges_;
  std::map<std::pair<const Node*, std::uint64_t>, std::size_t> indices_;
};

int main() {
  Parameters parameters(0);
  const Linear up(parameters.root() / "up", 2, 3);
  Graph graph;
  {
    const Observe scope(graph);
    const Tensor x = variable({4, 2}, std::vector<real>(8, 1));
    const Tensor y = up(x);
    sum(y * y);
  }
  std::printf("%s", graph.dot().c_str());
}
