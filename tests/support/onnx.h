// ONNX files for tests: an independent reader of their protobuf messages, and a naive interpreter of the ops.
#pragma once

#include "support/nd.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace test {

// All numbers are double: floats, integers, and truth as 0 or 1.
using OnnxArray = Nd<double>;

struct OnnxNode {
  std::string type, name;
  std::vector<std::string> inputs, outputs;
  std::map<std::string, std::vector<double>> attributes;
};

struct OnnxFile {
  std::int64_t ir_version = 0, operator_set = 0;
  std::string producer;
  std::map<std::string, std::string> notes;
  std::vector<OnnxNode> nodes;
  std::map<std::string, OnnxArray> constants;
  std::map<std::string, std::vector<std::string>> inputs, outputs;  // the sizes, numbers or names
};

// Fails the test if the file breaks the format.
OnnxFile read_onnx(const std::filesystem::path& path);

// The outputs, by a loop over the nodes. Fails the test for a node that uses what no earlier one gives, and for inputs
// that do not have the file's sizes, where equal names are equal sizes.
std::map<std::string, OnnxArray> run_onnx(const OnnxFile& file, const std::map<std::string, OnnxArray>& inputs);

}  // namespace test
