// OnnxGraph: a computation in the terms of ONNX, and the file of it, which ONNX Runtime and many other tools run.
//
//   OnnxGraph graph("doubled");
//   const OnnxValue x = graph.input("x", OnnxType::reals, {"rows", 2});   // any number of rows of two numbers
//   const OnnxValue y = graph.op("Mul", {x, graph.number(2)});
//   graph.output("y", y, OnnxType::reals, {"rows", 2});
//   graph.write("doubled.onnx");
//
// An op is one of ONNX's own by its name there, of the operator set 17 (github.com/onnx/onnx, docs/Operators.md), which
// ONNX Runtime has since its version 1.12. The graph checks that it is given values of its own, and nothing else about
// them: tools that load the file do. What a whole model becomes is in models/onnx.
//
// Format: protobuf messages (onnx.proto3), which are written here as they are, without that library. A weight is raw
// data in the type of `real`, little-endian.
#pragma once

#include "../../autograd/core/list.h"
#include "../../autograd/core/tensor.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

enum class OnnxType {
  reals,    // float32 or, in seppo::f64, double
  integers  // int64
};

// What an input, a constant or an op gives; other ops refer to it.
struct OnnxValue {
  std::string name = {};

  bool defined() const { return !name.empty(); }
};

// A number or, if inputs of the model decide about it, a name: equal names stand for equal sizes.
struct OnnxSize {
  OnnxSize(int size) : value(std::int64_t{size}) {}
  OnnxSize(const char* name) : value(std::string(name)) {}
  std::variant<std::int64_t, std::string> value;
};

struct OnnxAttribute {
  std::string name;
  std::variant<std::int64_t, double, std::vector<std::int64_t>> value;
};

class OnnxGraph {
 public:
  explicit OnnxGraph(std::string name) : name_(std::move(name)) {}

  // Throw ArgumentError if the name is taken.
  OnnxValue input(const std::string& name, OnnxType type, List<OnnxSize> sizes);
  void output(const std::string& name, const OnnxValue& value, OnnxType type, List<OnnxSize> sizes);

  // A tensor's values, under its own name if it is a parameter; the same tensor is written once. They are not copied:
  // the tensor must live, and keep its values, until the file is written.
  OnnxValue weight(const Tensor& tensor);
  // Values of one's own; equal ones are written once.
  OnnxValue numbers(const std::vector<std::int64_t>& shape, std::span<const real> values);
  OnnxValue number(double value);                               // of shape []
  OnnxValue integers(const std::vector<std::int64_t>& values);  // of one axis
  OnnxValue integer(std::int64_t value);                        // of shape []

  // The first result of an op; an undefined value is an optional input that is not given. Throws ArgumentError for a
  // value of another graph.
  OnnxValue op(const std::string& type, List<OnnxValue> inputs, List<OnnxAttribute> attributes = {});
  // All results of an op that has several.
  std::vector<OnnxValue> ops(const std::string& type, List<OnnxValue> inputs, std::size_t results,
                             List<OnnxAttribute> attributes = {});

  // The same numbers as reals.
  OnnxValue to_reals(const OnnxValue& integers);

  // Begins a part of the model, such as a module, for a scope: its name begins those of its ops, as tools show them.
  class Part {
   public:
    Part(OnnxGraph& graph, const std::string& name) : graph_(graph), outer_(std::exchange(graph.part_, name)) {}
    ~Part() { graph_.part_ = std::move(outer_); }
    Part(const Part&) = delete;

   private:
    OnnxGraph& graph_;
    std::string outer_;
  };

  // A text that is kept in the file beside the graph.
  void note(const std::string& key, const std::string& text);

  // Replaces the file whole or not at all. Throws FileError, and ArgumentError for a model of 2 GiB or more, which is
  // the most that a message of protobuf holds.
  void write(const std::filesystem::path& path) const;

  // One line for each input and output: "input src: int64 [batch,src_length]".
  std::string signature() const;

 private:
  struct Constant {
    std::string header;  // all of the message but the values
    std::vector<std::byte> own;
    std::span<const std::byte> values;
  };
  struct Port {
    std::string name;
    OnnxType type;
    std::vector<OnnxSize> sizes;
  };

  OnnxValue claim(const std::string& name);
  std::string next_name(const std::string& kind);
  void check_known(const std::string& user, const OnnxValue& value) const;
  OnnxValue add_own(const std::string& kind, int type, const std::vector<std::int64_t>& shape,
                    std::span<const std::byte> values);
  void add_node(const std::string& type, const std::string& name, List<OnnxValue> inputs,
                std::span<const OnnxValue> results, List<OnnxAttribute> attributes);

  std::string name_, part_;
  std::vector<Port> inputs_, outputs_;
  std::vector<Constant> constants_;
  std::string nodes_;                  // their messages
  std::map<std::string, int> counts_;  // of names that begin alike
  std::set<std::string> names_;        // that are taken
  std::map<std::pair<const real*, std::vector<std::int64_t>>, OnnxValue> weights_;
  std::map<std::pair<std::string, std::string>, OnnxValue> own_;  // by header and values
  std::map<std::string, std::string> notes_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
