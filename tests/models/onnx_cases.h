// ONNX graphs and what they should give, for the interpreter of these tests and, if SEPPO_ONNX_FOLDER names a folder,
// for ONNX Runtime (tests/oracle/onnx_runtime), which finds each as N.onnx with arrays beside it.
#pragma once

#include "support/onnx.h"

#include <seppo/nn/data/ragged.h>
#include <seppo/nn/io/npy.h>
#include <seppo/nn/io/onnx.h>

#include <boost/test/unit_test.hpp>

#include <unistd.h>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace onnx_cases {

using namespace seppo;
using test::OnnxArray;
namespace fs = std::filesystem;

struct TemporaryFile {
  fs::path path = fs::temp_directory_path() / ("seppo_onnx_" + std::to_string(::getpid()) + ".onnx");
  ~TemporaryFile() { fs::remove(path); }
};

inline test::OnnxFile written(const OnnxGraph& graph) {
  const TemporaryFile file;
  graph.write(file.path);
  return test::read_onnx(file.path);
}

inline OnnxArray array(const std::vector<int>& shape, std::span<const real> values) {
  OnnxArray x(shape);
  std::ranges::copy(values, x.v.begin());
  return x;
}

// The sequences side by side, filled up with `filler`.
inline OnnxArray padded(const Ragged& batch, double filler) {
  std::size_t longest = 0;
  for (std::size_t s = 0; s < batch.size(); ++s) longest = std::max(longest, batch[s].size());
  OnnxArray all({static_cast<int>(batch.size()), static_cast<int>(longest)});
  std::ranges::fill(all.v, filler);
  for (std::size_t s = 0; s < batch.size(); ++s)
    std::ranges::copy(batch[s], all.v.begin() + static_cast<std::ptrdiff_t>(s * longest));
  return all;
}

// The rows [rows, columns] of the same sequences: [batch, longest, columns], with NaN where there is none.
inline OnnxArray padded(const Tensor& rows, const Ragged& batch) {
  const OnnxArray places = padded(batch, 0);
  OnnxArray all({places.size(0), places.size(1), rows.size(1)});
  std::ranges::fill(all.v, std::numeric_limits<double>::quiet_NaN());
  int row = 0;
  for (int s = 0; s < places.size(0); ++s)
    for (int i = 0; i < static_cast<int>(batch[static_cast<std::size_t>(s)].size()); ++i, ++row)
      for (int j = 0; j < rows.size(1); ++j) all({s, i, j}) = rows.at(row, j);
  return all;
}

inline OnnxArray lengths(const Ragged& batch) {
  OnnxArray all(std::vector<int>{static_cast<int>(batch.size())});
  for (std::size_t s = 0; s < batch.size(); ++s) all.v[s] = static_cast<double>(batch[s].size());
  return all;
}

inline void save(const fs::path& path, const OnnxArray& x) { write_npy(path, Shape(x.shape), List<double>(x.v)); }

// The graph's output is what is expected, wherever that is a number.
inline void check(const OnnxGraph& graph, const std::map<std::string, OnnxArray>& inputs, const std::string& output,
                  const OnnxArray& expected) {
  const OnnxArray got = run_onnx(written(graph), inputs).at(output);
  BOOST_REQUIRE(got.shape == expected.shape);
  double largest = 0;
  double most = 0;
  for (std::size_t i = 0; i < got.v.size(); ++i) {
    if (std::isnan(expected.v[i])) continue;
    largest = std::max(largest, std::abs(expected.v[i]));
    BOOST_REQUIRE(std::isfinite(got.v[i]));
    most = std::max(most, std::abs(got.v[i] - expected.v[i]));
  }
  BOOST_CHECK_LE(most, (sizeof(real) == 8 ? 1e-7 : 1e-5) * std::max(1.0, largest));

  const char* const folder = std::getenv("SEPPO_ONNX_FOLDER");
  if (!folder) return;
  static int count = 0;
  const std::string name = std::to_string(count++);
  graph.write(fs::path(folder) / (name + ".onnx"));
  for (const auto& [input, x] : inputs) save(fs::path(folder) / (name + "." + input + ".in.npy"), x);
  save(fs::path(folder) / (name + "." + output + ".out.npy"), expected);
}

}  // namespace onnx_cases
