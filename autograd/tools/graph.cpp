// Collects vertices and edges as ops run, and writes them in the DOT language.
#include "graph.h"

#include "quote.h"

namespace seppo::inline SEPPO_ABI {
std::size_t Graph::vertex_of(const Tensor& tensor) {
  const Node& node = tensor.node();
  const auto [found, is_new] = indices_.try_emplace({&node, node.generation}, vertices_.size());
  if (is_new) {
    const std::string name = node.name ? *node.name : node.requires_grad ? "variable" : "constant";
    vertices_.push_back({name + " " + tensor.shape().str(), "", true});
  }
  return found->second;
}

void Graph::forward(const Tensor& output, std::span<const Tensor> inputs) {
  std::vector<std::size_t> from;
  for (const Tensor& input : inputs) from.push_back(vertex_of(input));
  const std::size_t to = vertex_of(output);
  const Node& node = output.node();
  vertices_[to] = {node.op, node.region ? *node.region : "", false};
  for (std::size_t i = 0; i < from.size(); ++i) edges_.push_back({from[i], to, inputs[i].shape().str()});
}

std::string Graph::dot() const {
  std::map<std::string, std::vector<std::size_t>> regions;
  for (std::size_t i = 0; i < vertices_.size(); ++i) regions[vertices_[i].region].push_back(i);
  std::string text =
      "digraph seppo {\n  rankdir=BT;\n  fontname=\"sans-serif\";\n  node [fontname=\"sans-serif\"];\n  edge "
      "[fontname=\"sans-serif\"];\n";
  std::size_t clusters = 0;
  for (const auto& [region, members] : regions) {
    if (!region.empty())
      text += concat_text("  subgraph cluster_", clusters++, " {\n    label=", quoted(region), ";\n    color=gray;\n");
    for (const std::size_t i : members)
      text += concat_text("    n", i, " [label=", quoted(vertices_[i].label),
                          vertices_[i].is_leaf ? ", shape=box, style=filled, fillcolor=lightgray" : "", "];\n");
    if (!region.empty()) text += "  }\n";
  }
  for (const Edge& edge : edges_)
    text += concat_text("  n", edge.from, " -> n", edge.to, " [label=", quoted(edge.shape), "];\n");
  return text + "}\n";
}

}  // namespace seppo::inline SEPPO_ABI
