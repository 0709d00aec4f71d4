// Data in memory: features and sequences are picked as they were given, and splits keep every example where it was.
#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/random.h>
#include <seppo/autograd/core/tape.h>
#include <seppo/nn/data/features.h>
#include <seppo/nn/data/ragged.h>
#include <seppo/nn/data/split.h>
#include <seppo/nn/io/ragged_file.h>

#include "support/errors.h"
#include "support/program.h"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

using namespace seppo;
using test::check_error;

namespace {

using Ids = std::vector<int>;

std::vector<real> values_of(const Tensor& x) { return {x.values().begin(), x.values().end()}; }

}  // namespace

BOOST_AUTO_TEST_CASE(features_are_picked_in_order) {
  tape().clear();
  Features points({2});
  for (const real first : {real{0}, real{10}, real{20}}) points.add({first, first + 1});
  BOOST_CHECK(points.size() == 3 && points[1][0] == 10 && points[1][1] == 11 && points[1].size() == 2);
  const Tensor x = points.pick({2, 0, 2});
  BOOST_CHECK(x.shape() == (Shape{3, 2}));
  BOOST_CHECK((values_of(x) == std::vector<real>{20, 21, 0, 1, 20, 21}));
  BOOST_CHECK(points.pick({}).shape() == (Shape{0, 2}));

  const Features images({2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), numbers({}, {1, 2, 3});
  BOOST_CHECK(images.size() == 2 && images.shape() == (Shape{2, 2}));
  const Tensor image = images.pick({1});
  BOOST_CHECK(image.shape() == (Shape{1, 2, 2}) && (values_of(image) == std::vector<real>{5, 6, 7, 8}));
  BOOST_CHECK(numbers.pick({2, 1}).shape() == Shape{2} && (values_of(numbers.pick({2, 1})) == std::vector<real>{3, 2}));
  BOOST_CHECK((pick({7, 8, 9}, {2, 0}) == Ids{9, 7}));
}

BOOST_AUTO_TEST_CASE(features_that_cannot_be) {
  Features points({2}, {1, 2, 3, 4});
  check_error<ShapeError>([&] { points.add({1}); }, {"features: an example has shape [2], not 1 values"});
  check_error<ShapeError>([] { Features({2}, {1, 2, 3}); }, {"3 values are no whole number of examples of shape [2]"});
  check_error<ShapeError>([] { Features({2, 0}); }, {"shape [2,0] has no number"});
  for (const int example : {-1, 2}) {
    check_error<IndexError>([&] { points.pick({0, example}); }, {"pick: example " + std::to_string(example) + " of 2"});
    check_error<IndexError>([&] { pick({7, 8}, {0, example}); }, {"pick: example"});
  }
}

BOOST_AUTO_TEST_CASE(sequences_from_vectors_and_arrays) {
  const Ragged texts = Ragged::of({{3, 1, 4}, {}, {1, 5}});
  BOOST_CHECK((texts.tokens == Ids{3, 1, 4, 1, 5} && texts.offsets == Ids{0, 3, 3, 5}));
  const Ragged one = Ragged::of({{1, 2}});
  BOOST_CHECK((one.tokens == Ids{1, 2} && one.offsets == Ids{0, 2}));
  BOOST_CHECK(Ragged::of({}).size() == 0);
  const Ragged rows = Ragged::of_length(2, {1, 2, 3, 4});
  BOOST_CHECK((rows.tokens == Ids{1, 2, 3, 4} && rows.offsets == Ids{0, 2, 4}));
  const Ragged arrays = Ragged::of_offsets(texts.tokens, texts.offsets);
  BOOST_CHECK(arrays.tokens == texts.tokens && arrays.offsets == texts.offsets);
}

BOOST_AUTO_TEST_CASE(sequences_that_cannot_be) {
  check_error<ShapeError>([] { Ragged::of_length(2, {1, 2, 3}); }, {"3 tokens are no whole number of sequences of 2"});
  check_error<ShapeError>([] { Ragged::of_length(0, {}); }, {"sequences of 0"});
  check_error<ShapeError>([] { Ragged::of_offsets({1}, {}); }, {"do not begin with 0"});
  check_error<ShapeError>([] { Ragged::of_offsets({1}, {1, 1}); }, {"do not begin with 0"});
  check_error<ShapeError>([] { Ragged::of_offsets({1, 2}, {0, 2, 1, 2}); }, {"offset 2, 1, is below 2"});
  check_error<ShapeError>([] { Ragged::of_offsets({1, 2}, {0, 1}); }, {"the last offset is 1, not 2"});
}

BOOST_AUTO_TEST_CASE(sequences_of_a_file) {
  const test::Folder folder("data");
  const auto read = [&](const std::string& content, int vocabulary) {
    folder.write("ids", content);
    return read_ragged(folder.path / "ids", vocabulary);
  };
  const Ragged texts = read("3 1\t4\r\n\n 1  5 \n", 6);
  BOOST_CHECK((texts.tokens == Ids{3, 1, 4, 1, 5} && texts.offsets == Ids{0, 3, 3, 5}));
  BOOST_CHECK(read("", 6).size() == 0 && read("2147483646", std::numeric_limits<int>::max()).tokens[0] == 2147483646);
  for (const char* wrong : {"6", "-1", "x", "1.5", "+1", "5,", "2147483648", "99999999999999999999"})
    check_error<FormatError>([&] { read("1 2\n1 " + std::string(wrong) + " 2\n", 6); },
                             {"ids:2:3: " + std::string(wrong) + " is not an id in 0..5"});
  BOOST_CHECK_THROW(read_ragged("/nowhere"), FileError);
}

BOOST_AUTO_TEST_CASE(every_example_is_in_one_part) {
  const SplitShares shares{.validation = 0.1, .test = 0.2, .seed = 3};
  const Split split = split_examples(10'000, shares);
  Ids all;
  for (const Ids* part : {&split.train, &split.validation, &split.test}) {
    BOOST_CHECK(std::ranges::is_sorted(*part));
    all.insert(all.end(), part->begin(), part->end());
  }
  std::ranges::sort(all);
  BOOST_REQUIRE_EQUAL(all.size(), 10'000);
  for (int i = 0; i < 10'000; ++i) BOOST_REQUIRE_EQUAL(all[static_cast<std::size_t>(i)], i);
  // Six standard deviations of a binomial distribution.
  const auto is_near = [](std::size_t count, double share) {
    return std::abs(static_cast<double>(count) - 10'000 * share) < 6 * std::sqrt(10'000 * share * (1 - share));
  };
  BOOST_CHECK(is_near(split.test.size(), 0.2) && is_near(split.validation.size(), 0.1));
  for (const int example : split.test)
    BOOST_REQUIRE(part_of(static_cast<std::uint64_t>(example), shares) == SplitPart::test);
  BOOST_CHECK(split_examples(10'000, {.validation = 0.1, .test = 0.2, .seed = 4}).test != split.test);
}

BOOST_AUTO_TEST_CASE(examples_stay_in_their_part) {
  const Split few = split_examples(500, {.seed = 1}), more = split_examples(700, {.seed = 1});
  const auto begins_with = [](const Ids& all, const Ids& part) {
    return std::equal(part.begin(), part.end(), all.begin(), all.begin() + std::ssize(part));
  };
  BOOST_CHECK(begins_with(more.train, few.train) && begins_with(more.validation, few.validation) &&
              begins_with(more.test, few.test));
  BOOST_CHECK(split_examples(500, {.validation = 0.3, .seed = 1}).test == few.test);
  BOOST_CHECK(split_examples(500, {.test = 0.3, .seed = 1}).validation == few.validation);
}

BOOST_AUTO_TEST_CASE(splits_without_a_part) {
  BOOST_CHECK(split_examples(9, {.validation = 0, .test = 0}).train.size() == 9);
  BOOST_CHECK(split_examples(9, {.validation = 0, .test = 1}).test.size() == 9);
  BOOST_CHECK(split_examples(100, {.validation = 0.5, .test = 0.5}).train.empty());
  check_error<ArgumentError>([] { split_examples(3, {.validation = 1e-9}); },
                             {"none of 3 examples fell into the validation part"});
  check_error<ArgumentError>([] { split_examples(0, {}); }, {"none of 0 examples"});
  for (const double share : {-0.1, 0.95, std::nan("")}) {
    check_error<ArgumentError>([&] { split_examples(3, {.validation = share}); }, {"are not parts of 1"});
    check_error<ArgumentError>([&] { part_of(1, {.test = share}); }, {"are not parts of 1"});
  }
  check_error<ArgumentError>([] { split_examples(std::size_t{1} << 31, {}); }, {"more than 2147483647"});
}

// Their streams begin differently from the library's and from each other.
BOOST_AUTO_TEST_CASE(purposes_of_ones_own) {
  std::set<std::uint32_t> begins, purposes;
  for (std::uint32_t purpose = 0; purpose < 128; ++purpose) {
    begins.insert(RandomStream(5, static_cast<Purpose>(purpose)).next());
    purposes.insert(purpose);
  }
  for (int n = 0; n < 128; ++n) {
    begins.insert(RandomStream(5, own_purpose(n)).next());
    purposes.insert(static_cast<std::uint32_t>(own_purpose(n)));
  }
  BOOST_CHECK(begins.size() == 256 && purposes.size() == 256 && *purposes.rbegin() == 255);
  for (const int n : {-1, 128})
    check_error<ArgumentError>([&] { own_purpose(n); }, {"own_purpose: " + std::to_string(n) + " is not in 0..127"});
}

BOOST_AUTO_TEST_CASE(ragged_batches) {
  Ragged batch;
  batch.add(std::vector<int>{1, 2});
  batch.add({});
  batch.add(std::vector<int>{3});
  BOOST_CHECK_EQUAL(batch.size(), 3);
  BOOST_CHECK_EQUAL(batch[1].size(), 0);
  BOOST_CHECK_EQUAL(batch[2][0], 3);
  batch.clear();
  BOOST_CHECK(batch.size() == 0 && batch.tokens.empty());
}

BOOST_AUTO_TEST_CASE(ragged_batches_are_picked_and_shifted) {
  Ragged all;
  for (const std::vector<int>& sequence : std::vector<std::vector<int>>{{1, 2, 3}, {}, {4}, {5, 6}}) all.add(sequence);
  const std::vector<int> rows{3, 0, 3, 1};
  const Ragged picked = all.pick(rows);
  BOOST_CHECK((picked.tokens == std::vector<int>{5, 6, 1, 2, 3, 5, 6}));
  BOOST_CHECK((picked.offsets == std::vector<int>{0, 2, 5, 7, 7}));
  const Ragged read = all.without_last(), written = all.without_first();
  BOOST_CHECK((read.tokens == std::vector<int>{1, 2, 5} && written.tokens == std::vector<int>{2, 3, 6}));
  BOOST_CHECK((read.offsets == std::vector<int>{0, 2, 2, 2, 3} && written.offsets == read.offsets));
  for (const int row : {-1, 4}) BOOST_CHECK_THROW(all.pick(std::vector<int>{0, row}), IndexError);
}
