// Tensors of a file whose rows belong to several parameters, or are in another order.
// needs: precision: double
#include <seppo/autograd/core/check.h>
#include <seppo/nn/io/checkpoint.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/parameters.h>

#include "support/stored.h"

#include <boost/test/unit_test.hpp>

#include <unistd.h>
#include <algorithm>
#include <bit>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace fs = std::filesystem;
using namespace seppo;

namespace {

struct TemporaryFile {
  fs::path path = fs::temp_directory_path() / ("seppo-weight-rows-" + std::to_string(::getpid()));
  ~TemporaryFile() { fs::remove(path); }
};

// Two matrices and a vector with rows of one tensor each, and one that has a tensor of its own.
struct Model {
  Parameters parameters;
  Tensor gate, up, bias, own;

  explicit Model(std::uint64_t seed)
      : parameters(seed),
        gate(parameters.root().parameter("gate", {2, 3}, init_normal(1))),
        up(parameters.root().parameter("up", {3, 3}, init_normal(1))),
        bias(parameters.root().parameter("bias", {4}, init_normal(1))),
        own(parameters.root().parameter("own", {2, 2}, init_normal(1))) {}
};

WeightOptions rows() {
  return {.rename =
              [](const std::string& name) {
                return std::vector{name == "gate" || name == "up" ? std::string("both") : name};
              },
          .rows = [](const std::string& name) -> TensorRows {
            if (name == "gate") return {{4, 1}, 5};
            if (name == "up") return {{0, 2, 3}, 5};
            if (name == "bias") return {{3, 2, 1, 0}, 4};
            return {};
          }};
}

}  // namespace

BOOST_AUTO_TEST_CASE(rows_are_written_to_their_places_and_read_from_there) {
  const TemporaryFile file;
  const Model written(1);
  save_weights(file.path, written.parameters, rows());

  Parameters plain(2);
  const Tensor both = plain.root().parameter("both", {5, 3}, init_zeros());
  const Tensor bias = plain.root().parameter("bias", {4}, init_zeros());
  const Tensor own = plain.root().parameter("own", {2, 2}, init_zeros());
  load_weights(file.path, plain);
  const auto row = [](const Tensor& x, std::size_t i) { return x.values().subspan(3 * i, 3); };
  BOOST_CHECK(std::ranges::equal(row(both, 4), row(written.gate, 0)));
  BOOST_CHECK(std::ranges::equal(row(both, 1), row(written.gate, 1)));
  BOOST_CHECK(std::ranges::equal(row(both, 0), row(written.up, 0)));
  BOOST_CHECK(std::ranges::equal(row(both, 3), row(written.up, 2)));
  for (std::size_t i = 0; i < 4; ++i) BOOST_CHECK_EQUAL(bias.values()[i], written.bias.values()[3 - i]);
  BOOST_CHECK(std::ranges::equal(own.values(), written.own.values()));

  Model read(3);
  load_weights(file.path, read.parameters, rows());
  BOOST_CHECK(std::ranges::equal(read.parameters.values(), written.parameters.values()));
}

BOOST_AUTO_TEST_CASE(rows_that_do_not_fit_are_refused) {
  const TemporaryFile file;
  const Model model(1);
  const auto refused = [&](const TensorRows& of_gate) {
    WeightOptions options = rows();
    options.rows = [&, usual = options.rows](const std::string& name) {
      return name == "gate" ? of_gate : usual(name);
    };
    BOOST_CHECK_THROW(save_weights(file.path, model.parameters, options), ArgumentError);
    BOOST_CHECK(!fs::exists(file.path));
  };
  refused({{4}, 5});     // one of two rows
  refused({{4, 5}, 5});  // beyond the tensor
  refused({{-1, 4}, 5});
  refused({{4, 1}, 6});  // the tensors differ, and row 5 is no one's
  WeightOptions options = rows();
  options.transpose = [](const std::string& name) { return name == "gate"; };
  BOOST_CHECK_THROW(save_weights(file.path, model.parameters, options), ArgumentError);
}

// Files of another type are read in pieces, each to its place.
BOOST_AUTO_TEST_CASE(large_tensors_of_another_type) {
  constexpr int kSize = 600;
  Parameters parameters(1);
  const Linear layer(parameters.root() / "w", kSize, kSize, {.bias = false});
  std::vector<std::uint16_t> halves;
  std::vector<real> expected;
  for (int i = 0; i < kSize * kSize; ++i) {
    const auto value = static_cast<float>(i % 251 + i / 100'000);  // exact in eight bits
    halves.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
    expected.push_back(real{value});
  }
  const auto bytes = std::as_bytes(std::span(halves));
  const TemporaryFile file;
  test::write_stored(file.path,
                     {.metadata = {}, .tensors = {{"w.weight", "BF16", {kSize, kSize}, {bytes.begin(), bytes.end()}}}});
  load_weights(file.path, parameters);
  BOOST_CHECK(std::ranges::equal(layer.weight.values(), expected));
}
