// Every row of the table of ops where slopes break: among infinities, zeros and equal elements. An input's gradient
// does not depend on which other inputs get one, and is added to what other ops have left there.
#include "support/op_check.h"
#include "support/ops/table.h"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>

using namespace test;

namespace {

using Values = std::vector<real>;

Values drawn_from(const Values& choice, std::size_t count, std::uint64_t seed) {
  seppo::RandomStream random(seed, seppo::Purpose::test);
  Values values(count);
  for (real& v : values) v = choice[random.below(static_cast<std::uint32_t>(choice.size()))];
  return values;
}

// The gradients of the inputs of a subset, each of whose elements is `before` when the op's backward runs; none of the
// others, or if nothing is recorded.
std::vector<Values> gradients(const OpCase& c, const Values& choice, std::uint32_t subset, real before) {
  seppo::Tape& tape = seppo::tape();
  tape.clear();
  soil(tape);
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < c.shapes.size(); ++i) {
    const Values values = drawn_from(choice, static_cast<std::size_t>(c.shapes[i].numel()), i);
    inputs.push_back(subset >> i & 1 ? seppo::variable(c.shapes[i], values) : seppo::tensor(c.shapes[i], values));
  }
  const Tensor y = c.op(inputs);
  std::vector<Values> found(inputs.size());
  if (!y.requires_grad()) return found;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (before != 0 && subset >> i & 1) tape.backward(seppo::scale(inputs[i], 1), Values(inputs[i].numel(), before));
  tape.backward(y, drawn_from({-2, 0.5, 3}, y.numel(), 9));
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].node().grad) found[i].assign(inputs[i].grad().begin(), inputs[i].grad().end());
  return found;
}

bool are_equal(const Values& a, const Values& b, real more) {
  return std::ranges::equal(a, b, [=](real x, real y) {
    return (std::isnan(x) && std::isnan(y)) || x == y + more || std::abs(x - y - more) <= 1e-5F * (1 + std::abs(x));
  });
}

void check_gradients(const std::string& name, const OpCase& c, const Values& choice) {
  const auto count = static_cast<std::uint32_t>(c.shapes.size());
  const std::vector<Values> all = gradients(c, choice, (1u << count) - 1, 0);
  const std::vector<Values> more = gradients(c, choice, (1u << count) - 1, 1);
  for (std::uint32_t i = 0; i < count; ++i) {
    const Values alone = count > 1 ? gradients(c, choice, 1u << i, 0)[i] : all[i];
    if (all[i].empty() || alone.empty()) continue;
    BOOST_CHECK_MESSAGE(are_equal(alone, all[i], 0), name << ": gradient " << i << " alone is another");
    BOOST_CHECK_MESSAGE(are_equal(more[i], all[i], 1), name << ": gradient " << i << " is not added");
  }
}

}  // namespace

BOOST_DATA_TEST_CASE(rows, boost::unit_test::data::make(ops_table()), row) {
  constexpr real kInfinity = std::numeric_limits<real>::infinity();
  for (const OpCase& c : typical_cases(row)) {
    if (!c.fits) continue;
    check_gradients(row.name, c, {-1, 0, 1});
    check_gradients(row.name + " with infinities", c, {-kInfinity, -kInfinity, 0, 1});
    check_gradients(row.name + " of infinities", c, {-kInfinity, -kInfinity, kInfinity});
  }
}
