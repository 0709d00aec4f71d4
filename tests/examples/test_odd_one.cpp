// The odd one in a set: what is drawn, that order does not matter, and the program as a user runs it.
// needs: programs: odd_one
#include "odd_one/model.h"
#include "support/program.h"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <numeric>

using namespace test;
using odd_one::kElements;
using odd_one::World;

BOOST_AUTO_TEST_CASE(nine_are_of_one_kind) {
  const World world(1, {.kinds = 5, .features = 3, .noise = 0});  // without noise, elements of a kind are equal
  std::vector<int> numbers(200), places(kElements);
  std::iota(numbers.begin(), numbers.end(), 0);
  const seppo::TapeMark mark;
  const World::Sets sets = world.sets(numbers);
  for (std::size_t s = 0; s < numbers.size(); ++s) {
    const auto element = [&](int i) {
      const auto row = sets.elements.values().subspan((s * kElements + static_cast<std::size_t>(i)) * 3, 3);
      return std::vector<float>(row.begin(), row.end());
    };
    const int odd = sets.odd[s];
    ++places[static_cast<std::size_t>(odd)];
    for (int i = 0; i < kElements; ++i) BOOST_CHECK((element(i) == element((odd + 1) % kElements)) == (i != odd));
  }
  for (const int count : places) BOOST_CHECK_GT(count, 5);
  // A set depends only on its number.
  const World::Sets one = world.sets(std::vector<int>{17});
  BOOST_CHECK(std::equal(one.elements.values().begin(), one.elements.values().end(),
                         sets.elements.values().begin() + 17 * kElements * 3));
}

BOOST_AUTO_TEST_CASE(scores_move_with_their_elements) {
  const World world(1, {.kinds = 10, .features = 6, .noise = 0.5});
  seppo::Parameters parameters(1);
  const odd_one::Model model(
      parameters.root(),
      {.world = {.features = 6}, .layer = {.d_model = 8, .n_heads = 2, .d_ff = 8, .dropout = 0}, .n_layers = 2});
  const seppo::TapeMark mark;
  const seppo::Tensor elements = world.sets(std::vector<int>{0, 1}).elements;
  const std::vector<int> order{3, 1, 4, 0, 5, 9, 2, 6, 8, 7, 12, 11, 10, 13, 19, 18, 17, 16, 15, 14};
  const auto before = model(elements), after = model(index_select(elements, 0, order));
  BOOST_CHECK_EQUAL(before.shape().str(), "[2,10]");
  float spread = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    BOOST_CHECK_SMALL(after.values()[i] - before.values()[static_cast<std::size_t>(order[i])], 1e-5f);
    spread = std::max(spread, std::abs(before.values()[i] - before.values()[0]));
  }
  BOOST_CHECK_GT(spread, 0.01f);
}

BOOST_AUTO_TEST_CASE(the_odd_one_is_found, *boost::unit_test::precondition(test::ends_in_time)) {
  const Folder folder("odd_one");
  const Result r = folder.run({"odd_one", "train", "--max-steps", "600", "--epochs", "2", "--log-format", "none",
                               "--json", "--d-model", "32", "--noise", "0.7", "--lr", "0.001"});
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  BOOST_CHECK_GT(last_line(r.out)["test_accuracy"].get<double>(), 0.9);
  // The saved model draws the same sets again.
  const Result p = folder.run({"odd_one", "predict", "20000", "--attention-out", "maps"}, "");
  BOOST_REQUIRE_MESSAGE(p.code == 0, p.err);
  std::string lines;
  for (int number = 20'000; number < 20'040; ++number) lines += std::to_string(number) + "\n";
  const Result many = folder.run({"odd_one", "predict"}, lines);
  BOOST_CHECK_EQUAL(std::count(many.out.begin(), many.out.end(), '\n'), 40);
  BOOST_CHECK(many.out.starts_with(p.out));
  std::size_t right = 0;
  for (std::size_t at = 0; (at = many.out.find(", right", at)) != std::string::npos; ++at) ++right;
  BOOST_CHECK_GT(right, 32);
  BOOST_CHECK(fs::exists(folder.path / "maps"));
  // Each set's pictures would replace those of the one before.
  const std::string one_query = "--attention-out: takes one query";
  check_refused(folder, {"odd_one", "predict", "20000", "20001", "--attention-out", "others"}, 2, one_query);
  const Result lines_too = folder.run({"odd_one", "predict", "--attention-out", "maps"}, lines);
  BOOST_CHECK(lines_too.code == 2 && lines_too.out == p.out && lines_too.err.find(one_query) != std::string::npos);
  for (const char* bad : {"-1", "x", "3.5", "99999999999"})
    check_refused(folder, {"odd_one", "predict", bad}, 1, "set");
  BOOST_CHECK(folder.run({"odd_one", "predict", "1000000000", "0"}).out.starts_with("set 1000000000: element "));
  check_refused(folder, {"odd_one", "predict", "1000000001"}, 1, "set '1000000001' is not a number 0-1000000000");
  check_refused(folder, {"odd_one", "train", "--kinds", "1"}, 2, "--kinds");
  check_refused(folder, {"odd_one", "train", "--heads", "3"}, 2, "--d-model");
}

// Neither options nor a small model file can make a world allocate unlimited memory.
BOOST_AUTO_TEST_CASE(a_world_has_a_limit) {
  BOOST_CHECK_THROW(odd_one::World(1, {.kinds = 100'000, .features = 4096}), seppo::ArgumentError);
  const Folder folder("odd_one");
  for (const char* command : {"train", "data"})
    check_refused(folder, {"odd_one", command, "--kinds", "100000", "--features", "4096"}, 2,
                  "--kinds 100000 times --features 4096 are more than");
  BOOST_CHECK_NO_THROW(odd_one::World(1, {.kinds = 100'000, .features = 32}));
}
