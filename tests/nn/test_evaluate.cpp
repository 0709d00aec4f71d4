// evaluate: named sums over chunks of examples, and their means.
#include <seppo/autograd/core/observer.h>
#include <seppo/autograd/core/parallel.h>
#include <seppo/autograd/ops.h>
#include <seppo/nn/parameters.h>
#include <seppo/nn/train/evaluate.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

using namespace seppo;

namespace {

std::vector<int> examples_to(int last) {
  std::vector<int> examples(static_cast<std::size_t>(last));
  std::iota(examples.begin(), examples.end(), 1);
  return examples;
}

}  // namespace

// Losses as in a training step, but without dropout and without a trace on the tape.
BOOST_AUTO_TEST_CASE(evaluation_adds_up_over_chunks) {
  Parameters parameters(1);
  const Tensor w = parameters.root().parameter("w", {1}, init_ones());
  const std::vector<int> examples = examples_to(150);
  for (const std::size_t chunk : {std::size_t{1}, std::size_t{64}, std::size_t{1000}})
    for (const int threads : {1, 4}) {
      set_num_threads(threads);
      const std::size_t before = tape().size();
      std::atomic<int> oversized = 0;
      const Sums sums = evaluate(
          examples,
          [&](std::span<const int> some) {
            if (some.size() > chunk) ++oversized;  // Boost's checks are not thread-safe
            const real total = static_cast<real>(std::accumulate(some.begin(), some.end(), 0));
            return ShardLoss{sum(dropout(w, 0.5)) * total, static_cast<double>(some.size()), 1};
          },
          chunk);
      BOOST_CHECK_EQUAL(oversized, 0);
      BOOST_CHECK_EQUAL(sums.mean("loss"), 151.0 / 2);
      BOOST_CHECK_EQUAL(sums["correct"], (examples.size() + chunk - 1) / chunk);
      BOOST_CHECK_EQUAL(tape().size(), before);
    }
  set_num_threads(1);
  BOOST_CHECK_THROW(evaluate(
                        examples, [&](std::span<const int>) { return ShardLoss{sum(w)}; }, 0),
                    ArgumentError);
}

// A name may be missing for some of the chunks; values are added in the order of the chunks, whatever finishes first.
BOOST_AUTO_TEST_CASE(sums_of_any_names) {
  const std::vector<int> examples = examples_to(50);
  double expected = 0;
  for (const int example : examples) expected += 1.0 / example;
  for (const int threads : {1, 4}) {
    set_num_threads(threads);
    const Sums sums = evaluate(
        examples,
        [](std::span<const int> one) {
          Sums found{{"inverse", 1.0 / one[0]}, {"count", 1}};
          if (one[0] % 7 == 0) found.add("sevens", 1);
          return found;
        },
        1);
    BOOST_CHECK_EQUAL(sums["inverse"], expected);
    BOOST_CHECK_EQUAL(sums["sevens"], 7);
    BOOST_CHECK_EQUAL(sums.mean("sevens"), 7.0 / 50);
    BOOST_CHECK_EQUAL(sums.mean("count", "sevens"), 50.0 / 7);
    std::string names;
    for (const Sums::Named& sum : sums.all()) names += sum.name + " ";
    BOOST_CHECK_EQUAL(names, "inverse count sevens ");
  }
  set_num_threads(1);
  const Sums none = evaluate({}, [](std::span<const int>) { return Sums{{"count", 1}}; });
  BOOST_CHECK(none.all().empty());
}

BOOST_AUTO_TEST_CASE(sums_add_up_by_name) {
  Sums sums{{"a", 1}, {"b", 2}, {"a", 3}};
  sums.add("b", 0.5);
  sums.add("c", -1);
  BOOST_CHECK_EQUAL(sums["a"], 4);
  BOOST_CHECK_EQUAL(sums["b"], 2.5);
  BOOST_CHECK_EQUAL(sums["c"], -1);
  const auto says = [](const char* text) {
    return [=](const ArgumentError& e) { return std::string(e.what()) == text; };
  };
  BOOST_CHECK_EXCEPTION(sums["exact"], ArgumentError, says("sums: there is no 'exact', only a, b, c"));
  BOOST_CHECK_EXCEPTION(sums.mean("a"), ArgumentError, says("sums: there is no 'count', only a, b, c"));
  BOOST_CHECK_EXCEPTION(Sums()["a"], ArgumentError, says("sums: there is no 'a', only nothing"));
}

// On tapes that are lent, evaluations compute the same, also within each other, and leave nothing behind.
BOOST_AUTO_TEST_CASE(evaluations_on_other_tapes) {
  const std::vector<int> examples = examples_to(40);
  struct : Observer {
  } observer;
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    std::vector<std::unique_ptr<Tape>> tapes;
    for (int i = 0; i < threads; ++i) tapes.push_back(std::make_unique<Tape>());
    const auto is_lent = [&](const Tape& t) {
      return std::ranges::any_of(tapes, [&](const auto& one) { return one.get() == &t; });
    };
    std::atomic<int> strange = 0;
    const auto f = [&](std::span<const int> some) -> Sums {
      if (!is_lent(tape()) || tape().mode != Mode::eval) ++strange;
      const Tensor before = full({1}, 2);
      const Sums inner = evaluate(
          some,
          [](std::span<const int>) {
            return Sums{{"count", 1}};
          },
          1);
      if (!is_lent(tape()) || tape().mode != Mode::eval || before.item() != 2) ++strange;
      return inner;
    };
    {
      const Observe scope(observer);
      const UseTapes lent(tapes);
      BOOST_CHECK_EQUAL(evaluate(examples, f, 7)["count"], 40);
    }
    BOOST_CHECK_EQUAL(strange, 0);
    for (const auto& t : tapes) BOOST_CHECK(t->size() == 0 && t->mode == Mode::train && !t->observers());
    const auto is_own = [&](std::span<const int>) { return Sums{{"own", is_lent(tape()) ? 0.0 : 1.0}}; };
    BOOST_CHECK_EQUAL(evaluate(examples, is_own, 40)["own"], 1);
  }
  set_num_threads(1);
}
