// Graph: what was computed, as a picture for Graphviz.
//
//   Graph graph;
//   {
//     const Observe scope(graph);
//     model.loss(batch);
//   }
//   std::ofstream("graph.dot") << graph.dot();      // dot -Tsvg graph.dot > graph.svg
//
// Ops are ellipses, in a box for each module; parameters and other leaves are boxes. Edges carry shapes.
#pragma once

#include "../core/observer.h"

#include <map>
#include <string>
#include <vector>

namespace seppo::inline SEPPO_ABI {

class Graph : public Observer {
 public:
  void forward(const Tensor& output, std::span<const Tensor> inputs) override;
  std::string dot() const;

 private:
  struct Vertex {
    std::string label, region;
    bool is_leaf;
  };
  struct Edge {
    std::size_t from, to;
    std::string shape;
  };
  std::size_t vertex_of(const Tensor& tensor);

  std::vector<Vertex> vertices_;
  std::vector<Edge> edges_;
  std::map<std::pair<const Node*, std::uint64_t>, std::size_t> indices_;  // by node and its generation
};

}  // namespace seppo::inline SEPPO_ABI
