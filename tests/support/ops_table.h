// The table of ops: one row an op, for all tests that go over ops.
//
//   ops_table          check_op, for all its shapes, in both precisions and with each instruction set
//   misuse             arguments that do not fit give one typed line
//   threads_everywhere the same bytes for any number of threads
//   torch_oracle       PyTorch's values and gradients
//
// An op with arguments of other kinds than tensors has a row for typical ones, and its other cases in its own test.
#pragma once

#include "support/op.h"

#include <ostream>
#include <string>
#include <vector>

namespace test {

struct OpRow {
  std::string name;
  Op op;
  Reference reference;
  std::vector<std::vector<Shape>> shapes;  // of the inputs, for each case
  std::vector<Shape> large;                // more elements than one piece of any loop has
  std::string torch;                       // the same in PyTorch, of x[0], x[1], ...; empty if it has no such op
  OpCheckOptions options = {};

  friend std::ostream& operator<<(std::ostream& out, const OpRow& row) { return out << row.name; }
};

const std::vector<OpRow>& ops_table();

}  // namespace test
