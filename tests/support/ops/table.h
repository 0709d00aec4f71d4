// The table of ops: one row an op, for all tests that go over ops.
//
//   ops_table           its values, and its gradients for every subset of inputs, for all typical arguments, in both
//                       precisions and with each instruction set; arguments that do not fit are refused
//   special_values      gradients at infinities, zeros and equal elements
//   misuse              random arguments: it works or gives one typed line, as the row says
//   threads_everywhere  the same bytes for any number of threads
//   torch_oracle        PyTorch's values and gradients
//   fuzz_ops            random programs of ops
//
// A row says how the op's arguments are drawn (draw.h). What it cannot say, such as kinks, limits and the wording of
// errors, is in the test of the op's subject.
#pragma once

#include "support/op.h"
#include "support/ops/draw.h"

#include <functional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

namespace test {

// One call of an op.
struct OpCase {
  Op op;
  Reference reference;
  bool fits = true;        // whether the op accepts its arguments, or must refuse them
  std::string torch = {};  // the same in PyTorch, of x[0], x[1], ...; empty if it has no such op
  OpCheckOptions options = {};
  // The magnitude of the summands, from those of the inputs, where inputs and output do not show it.
  std::function<double(std::span<const double>)> terms = {};
  std::vector<Shape> shapes = {};  // of the inputs; drawn() sets it
};

// For which inputs random programs compare an op with its reference.
enum class Range { moderate, finite, all };

struct OpRow {
  std::string name;
  std::function<OpCase(Draw&)> draw;
  // Shapes of inputs with more elements than one piece of any loop has; none if its own test has such a call.
  std::vector<Shape> large;
  Range range = Range::moderate;

  friend std::ostream& operator<<(std::ostream& out, const OpRow& row) { return out << row.name; }
};

const std::vector<OpRow>& ops_table();

// The call that this draw gives, and all typical ones.
OpCase drawn(const OpRow& row, Draw& draw);
std::vector<OpCase> typical_cases(const OpRow& row);

// On the squares of the inputs plus 1/2, for an op that needs positive inputs: as an op, and its reference.
OpCase of_positive(const OpCase& of);

}  // namespace test
