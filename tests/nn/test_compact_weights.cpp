// compact_weights(): what modules compute with compact weights, and what is refused then.
// needs: precision: single double
#include "support/errors.h"

#include <seppo/autograd/core/guards.h>
#include <seppo/autograd/ops.h>
#include <seppo/autograd/tools/anomaly.h>
#include <seppo/nn/compact_weights.h>
#include <seppo/nn/io/checkpoint.h>
#include <seppo/nn/modules/embedding.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/modules/multi_head_attention.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

using namespace seppo;

namespace {

// A module of each kind that has weights, with the same values for the same seed.
struct Modules {
  Parameters parameters{3};
  Embedding table{parameters.root() / "table", 50, 40, init_normal(0.5)};
  Embedding positions{parameters.root() / "positions", 10, 40, init_normal(0.5)};
  Linear up{parameters.root() / "up", 40, 70};
  MultiHeadAttention attention{parameters.root() / "attention", 40, 4};

  Tensor embedded() const { return table({3, 1, 4, 1, 49, 9, 2}, {.scale = 2}); }
  Tensor placed() const { return table({0, 5, 7}, {.positions = positions.weight, .position_ids = {2, 9, 0}}); }
  Tensor upper_rows() const { return linear(embedded(), slice(slice(up.weight, 0, 10, 60), 0, 5, 30)); }
  Tensor self_attention() const { return attention(embedded(), {0, 3, 7}); }
  Tensor cross_attention() const { return attention(embedded(), {0, 7}, placed(), {0, 3}); }
  Tensor loss() const { return linear_cross_entropy(embedded(), table.weight, {1, 2, 3, 4, 5, 6, 7}); }
};

struct Computation {
  std::string name;
  Tensor (*f)(const Modules& m);
};

const std::vector<Computation> kComputations{
    {"embedding", [](const Modules& m) { return m.embedded(); }},
    {"embedding with positions", [](const Modules& m) { return m.placed(); }},
    {"linear", [](const Modules& m) { return m.up(m.embedded(), Activation::relu); }},
    {"linear of one row", [](const Modules& m) { return m.up(slice(m.embedded(), 0, 2, 3)); }},
    {"linear with some rows of a weight", [](const Modules& m) { return m.upper_rows(); }},
    {"a tied output", [](const Modules& m) { return m.table.as_linear(m.embedded()); }},
    {"self-attention", [](const Modules& m) { return m.self_attention(); }},
    {"cross-attention", [](const Modules& m) { return m.cross_attention(); }},
    {"linear_cross_entropy", [](const Modules& m) { return m.loss(); }}};

std::vector<real> computed(const Modules& modules, Tensor (*f)(const Modules& m)) {
  const Inference guard;
  const Tensor y = f(modules);
  return {y.values().begin(), y.values().end()};
}

// The numbers that the weights of a compact model stand for, as reals.
void copy_expanded(const Parameters& from, Parameters& to) {
  for (const Parameters::Entry& entry : from.entries()) {
    const auto rows = compact_rows(entry.tensor);
    real* const values = to.find(entry.name)->tensor.data();
    if (!rows) std::ranges::copy(entry.tensor.values(), values);
    for (std::size_t i = 0; rows && i < rows->count; ++i) rows->matrix->expand(i, values + i * entry.tensor.cols());
  }
  to.changed();
}

// |a - b| / |b|
double relative_distance(const std::vector<real>& a, const std::vector<real>& b) {
  BOOST_REQUIRE_EQUAL(a.size(), b.size());
  double difference = 0, length = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(double{a[i]} - double{b[i]}, 2);
    length += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(difference / length);
}

}  // namespace

// With bf16, the numbers that are multiplied are the same; with q8, those of the other operand have 8 bits.
BOOST_AUTO_TEST_CASE(modules_compute_with_what_compact_weights_stand_for) {
  for (const WeightFormat format : {WeightFormat::bf16, WeightFormat::q8}) {
    Modules compact, expected;
    compact_weights(compact.parameters, format);
    copy_expanded(compact.parameters, expected.parameters);
    for (const auto& [name, f] : kComputations) {
      const double off = relative_distance(computed(compact, f), computed(expected, f));
      BOOST_CHECK_MESSAGE(off < (format == WeightFormat::bf16 ? 1e-5 : 1e-2), name << ": " << off);
    }
  }
}

BOOST_AUTO_TEST_CASE(full_changes_nothing) {
  Modules modules;
  compact_weights(modules.parameters, WeightFormat::full);
  BOOST_CHECK_GT(modules.parameters.count(), 0u);
  for (const Parameters::Entry& entry : modules.parameters.entries()) BOOST_CHECK(!compact_rows(entry.tensor));
}

BOOST_AUTO_TEST_CASE(vectors_stay_reals_and_all_is_frozen) {
  Modules modules;
  compact_weights(modules.parameters, WeightFormat::q8);
  BOOST_CHECK_EQUAL(modules.parameters.count(), 0u);
  for (const Parameters::Entry& entry : modules.parameters.entries()) {
    BOOST_CHECK_EQUAL(compact_rows(entry.tensor).has_value(), entry.shape.rank() == 2);
    BOOST_CHECK(!entry.tensor.requires_grad());
    if (entry.shape.rank() == 1) BOOST_CHECK_EQUAL(entry.tensor.values().size(), entry.size());
  }
}

BOOST_AUTO_TEST_CASE(what_needs_reals_is_refused) {
  Modules modules;
  Parameters& parameters = modules.parameters;
  const Tensor& weight = modules.up.weight;
  compact_weights(parameters, WeightFormat::bf16);
  test::check_error<StateError>([&] { compact_weights(parameters, WeightFormat::q8); }, {"table.weight", "compact"});
  test::check_error<StateError>([&] { save_weights("compact.safetensors", parameters); }, {"table.weight", "compact"});
  test::check_error<StateError>([&] { weight.values(); }, {"up.weight", "compact"});
  test::check_error<StateError>([&] { transpose(weight); }, {"up.weight", "compact"});
  test::check_error<StateError>([&] { reshape(weight, {-1}).values(); }, {"up.weight", "compact"});
  test::check_error<StateError>(
      [&] {
        linear(tensor({1, 20}, std::vector<real>(20)), reshape(weight, {140, 20}));
      },
      {"up.weight", "compact"});
  test::check_error<StateError>(
      [&] {  // rows that begin within a row
        const Tensor part = slice(reshape(weight, {-1}), 0, 20, 100);
        linear(tensor({1, 40}, std::vector<real>(40)), reshape(part, {2, 40}));
      },
      {"up.weight", "compact"});
  test::check_error<StateError>(
      [&] {
        const Tensor x = variable({1, 40}, std::vector<real>(40, real{1}));
        backward(sum(modules.up(x)));
      },
      {"up.weight", "backward"});
}

BOOST_AUTO_TEST_CASE(a_weight_that_is_not_finite) {
  Modules modules;
  modules.up.weight.data()[0] = std::numeric_limits<real>::infinity();
  test::check_error<NumericError>([&] { compact_weights(modules.parameters, WeightFormat::q8); },
                                  {"up.weight", "row 0"});
  BOOST_CHECK(!compact_rows(modules.up.weight));
}

// They were finite when they became compact.
BOOST_AUTO_TEST_CASE(anomalies_beside_compact_weights) {
  Modules modules;
  compact_weights(modules.parameters, WeightFormat::q8);
  FindAnomaly anomaly;
  const Observe scope(anomaly);
  const Inference guard;
  BOOST_CHECK_NO_THROW(modules.cross_attention());
  const real most = std::numeric_limits<real>::max();
  test::check_error<NumericError>([&] { modules.up(full({1, 40}, most)); }, {"linear", "from finite inputs"});
}

BOOST_AUTO_TEST_CASE(parameters_that_move) {
  Modules modules;
  compact_weights(modules.parameters, WeightFormat::bf16);
  const auto attended = [](const Modules& m) { return m.self_attention(); };
  const std::vector<real> before = computed(modules, attended);
  const Linear late(modules.parameters.root() / "late", 200, 300);  // moves the others' values
  BOOST_CHECK(computed(modules, attended) == before);
  BOOST_CHECK_GT(std::abs(late.weight.at(0, 0)), 0);
  const Parameters moved = std::move(modules.parameters);
  BOOST_CHECK(computed(modules, attended) == before);
}
