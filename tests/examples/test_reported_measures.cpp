// The figures that programs report about a training run, recomputed: the loss of the first step from the training data
// alone, and each measure of the kept model from its scores on data not trained on. The data are drawn again here,
// from the same random streams.
// needs: programs: addsub reverse count odd_one
#include "addsub/model.h"
#include "count/model.h"
#include "odd_one/model.h"
#include "reverse/model.h"
#include "support/measures.h"

#include <seppo/autograd/ops.h>

#include <boost/test/unit_test.hpp>

#include <map>
#include <numeric>
#include <set>

using namespace test;
using seppo::Ragged;

namespace {

using Measures = std::map<std::string, double>;

// Sequences of 16 random symbols below `symbols`.
Ragged drawn(std::uint64_t seed, std::uint64_t stream, int count, unsigned symbols) {
  seppo::RandomStream random(seed, seppo::Purpose::data, stream);
  Ragged sequences;
  for (int i = 0; i < count; ++i) {
    std::vector<int> symbols_of_one;
    for (int j = 0; j < 16; ++j) symbols_of_one.push_back(static_cast<int>(random.below(symbols)));
    sequences.add(symbols_of_one);
  }
  return sequences;
}

void check_disjoint(const std::vector<Ragged>& parts) {
  std::set<std::vector<int>> seen;
  for (const Ragged& part : parts) {
    std::set<std::vector<int>> here;
    for (std::size_t i = 0; i < part.size(); ++i) here.emplace(part[i].begin(), part[i].end());
    const std::size_t before = seen.size(), fresh = here.size();
    seen.merge(here);
    BOOST_CHECK_EQUAL(seen.size(), before + fresh);
  }
}

// Right digits of reversed sequences, and the share of entirely right sequences.
std::pair<Sums, double> reversal_of(const reversal::Model& model, const Ragged& sequences) {
  const seppo::Inference guard;
  const seppo::Tensor scores = model(sequences);
  Sums sums;
  int whole = 0;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    bool is_right = true;
    for (std::size_t j = 0; j < 16; ++j) is_right &= sums.add(row_of(scores, 16 * i + j), sequences[i][15 - j]);
    whole += is_right;
  }
  return {sums, whole / static_cast<double>(sequences.size())};
}

Sums answers_of(const count::Model& model, const Ragged& sequences) {
  const seppo::Inference guard;
  const seppo::Tensor scores = model(sequences);
  Sums sums;
  for (std::size_t i = 0; i < sequences.size(); ++i)
    sums.add(row_of(scores, i), static_cast<int>(std::ranges::count(sequences[i], 0)));
  return sums;
}

Sums odd_ones_of(const odd_one::Model& model, const odd_one::World& world, const std::vector<int>& numbers) {
  const seppo::Inference guard;
  const odd_one::World::Sets sets = world.sets(numbers);
  const seppo::Tensor scores = model(sets.elements);
  Sums sums;
  for (std::size_t i = 0; i < numbers.size(); ++i) sums.add(row_of(scores, i), sets.odd[i]);
  return sums;
}

std::vector<int> numbers_from(int first, int count) {
  std::vector<int> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

}  // namespace

BOOST_AUTO_TEST_CASE(reversed_digits, *boost::unit_test::precondition(test::ends_in_time)) {
  const Folder folder("measures");
  const Finished r = run_training(folder,
                                  {"reverse", "train", "--seed", "5", "--epochs", "2", "--epoch-steps", "64", "--lr",
                                   "0.004", "--schedule", "const", "--warmup-steps", "20", "--batch-size", "64"},
                                  "m");
  const Ragged training = drawn(5, 10, 50'000, 10), validation = drawn(5, 11, 1'000, 10),
               testing = drawn(5, 12, 10'000, 10);
  check_disjoint({training, validation, testing});
  const auto saved = seppo::load_model<reversal::Model>(folder.path / "m/model.safetensors");
  const Fresh<reversal::Model> start(5, saved.model.config);
  check_near(r.steps[0]["loss"], reversal_of(start.model, training.pick(first_batch(50'000, r))).first.loss());

  const auto [sums, whole] = reversal_of(saved.model, validation);
  check_near(r.summary["val_loss"], sums.loss());
  BOOST_CHECK_EQUAL(r.summary["val_exact"].get<double>(), whole);
  BOOST_CHECK_EQUAL(r.summary["val_token_accuracy"].get<double>(), sums.accuracy());
  BOOST_CHECK_MESSAGE(whole > 0 && whole < 1, "too easy, or too hard, to tell anything: " << whole);
  const Result eval = folder.run({"reverse", "eval", "--model", "m", "--json"});
  const auto [test_sums, test_whole] = reversal_of(saved.model, testing);
  check_near(last_line(eval.out)["test_loss"], test_sums.loss());
  BOOST_CHECK_EQUAL(last_line(eval.out)["test_exact"].get<double>(), test_whole);
  BOOST_CHECK_EQUAL(last_line(eval.out)["test_token_accuracy"].get<double>(), test_sums.accuracy());
  BOOST_CHECK_EQUAL(last_line(eval.out)["val_exact"].get<double>(), whole);
  BOOST_CHECK(eval.out.find(fmt::format("exact match {:8.4f} %", 100 * test_whole)) != std::string::npos);
  check_evaluations<reversal::Model>(folder, r, "m", [&](const reversal::Model& model) {
    const auto [now, right] = reversal_of(model, validation);
    return Measures{{"val_loss", now.loss()}, {"val_exact", right}, {"val_token_accuracy", now.accuracy()}};
  });
}

namespace {

// `eval` finds what training found, and the loss on fresh examples.
void check_eval(const Folder& folder, const char* program, const Finished& r, double fresh_loss) {
  const Result eval = folder.run({program, "eval", "--model", "m", "--json"});
  BOOST_REQUIRE_MESSAGE(eval.code == 0, eval.err);
  const auto said = last_line(eval.out);
  for (const char* measure : {"val_loss", "val_accuracy", "test_accuracy"})
    BOOST_CHECK_EQUAL(said[measure].get<double>(), r.summary[measure].get<double>());
  check_near(said["test_loss"], fresh_loss);
  for (const char* measure : {"val_accuracy", "test_accuracy"})
    BOOST_CHECK_NE(eval.out.find(fmt::format("{:.2f} % of", 100 * said[measure].get<double>())), std::string::npos);
}

}  // namespace

BOOST_AUTO_TEST_CASE(answers_about_sequences, *boost::unit_test::precondition(test::ends_in_time)) {
  const Folder folder("measures");
  const Finished r = run_training(
      folder, {"count", "train", "--seed", "5", "--epochs", "2", "--epoch-steps", "20", "--batch-size", "64"}, "m");
  const Ragged training = drawn(5, 20, 50'000, 16), validation = drawn(5, 21, 1'000, 16),
               testing = drawn(5, 22, 10'000, 16);
  check_disjoint({training, validation, testing});
  const auto saved = seppo::load_model<count::Model>(folder.path / "m/model.safetensors");
  const Fresh<count::Model> start(5, saved.model.config);
  check_near(r.steps[0]["loss"], answers_of(start.model, training.pick(first_batch(50'000, r))).loss());
  const Sums sums = answers_of(saved.model, validation), fresh = answers_of(saved.model, testing);
  check_near(r.summary["val_loss"], sums.loss());
  BOOST_CHECK_EQUAL(r.summary["val_accuracy"].get<double>(), sums.accuracy());
  BOOST_CHECK_EQUAL(r.summary["test_accuracy"].get<double>(), fresh.accuracy());
  check_eval(folder, "count", r, fresh.loss());
  check_evaluations<count::Model>(folder, r, "m", [&](const count::Model& model) {
    const Sums now = answers_of(model, validation);
    return Measures{{"val_loss", now.loss()}, {"val_accuracy", now.accuracy()}};
  });
}

BOOST_AUTO_TEST_CASE(odd_ones_of_sets) {
  const Folder folder("measures");
  const Finished r = run_training(folder,
                                  {"odd_one", "train", "--seed", "5", "--epochs", "2", "--epoch-steps", "20",
                                   "--dropout", "0", "--d-model", "16", "--layers", "1", "--batch-size", "32"},
                                  "m");
  const auto saved = seppo::load_model<odd_one::Model>(folder.path / "m/model.safetensors");
  const Fresh<odd_one::Model> start(5, saved.model.config);
  const odd_one::World world(5, saved.model.config.world);
  check_near(r.steps[0]["loss"], odd_ones_of(start.model, world, first_batch(20'000, r)).loss());
  // Sets numbered below 20,000 are for training, the next 1,000 for validation, and the 10,000 after them for testing.
  const Sums sums = odd_ones_of(saved.model, world, numbers_from(20'000, 1'000)),
             fresh = odd_ones_of(saved.model, world, numbers_from(21'000, 10'000));
  check_near(r.summary["val_loss"], sums.loss());
  BOOST_CHECK_EQUAL(r.summary["val_accuracy"].get<double>(), sums.accuracy());
  BOOST_CHECK_EQUAL(r.summary["test_accuracy"].get<double>(), fresh.accuracy());
  check_eval(folder, "odd_one", r, fresh.loss());
  check_evaluations<odd_one::Model>(folder, r, "m", [&](const odd_one::Model& model) {
    const Sums now = odd_ones_of(model, world, numbers_from(20'000, 1'000));
    return Measures{{"val_loss", now.loss()}, {"val_accuracy", now.accuracy()}};
  });
}

namespace {

struct AddsubScore {
  Sums tokens;
  std::vector<int> places = std::vector<int>(4);  // right tokens by position
  std::vector<int> wrong;                         // rows
};

AddsubScore addsub_score(const addsub::Model& model, const addsub::Dataset& data) {
  const seppo::Inference guard;
  AddsubScore score;
  Ragged given, written;
  for (const addsub::Expression& e : data.rows) {
    const auto target = e.target();
    given.add(std::span(target).first(4));
    written.add({addsub::kBos});
  }
  const seppo::Tensor scores = model.transformer.logits(data.source, given);
  for (std::size_t row = 0; row < data.rows.size(); ++row)
    for (std::size_t place = 0; place < 4; ++place)
      score.places[place] += score.tokens.add(row_of(scores, 4 * row + place), data.rows[row].target()[place + 1]);
  // Greedy decoding without a cache: everything written so far is read again for each token.
  for (std::size_t length = 1; length <= 4; ++length) {
    const seppo::Tensor next = model.transformer.logits(data.source, written);
    Ragged longer;
    for (std::size_t row = 0; row < data.rows.size(); ++row) {
      std::vector<int> tokens(written[row].begin(), written[row].end());
      const auto last = row_of(next, row * length + length - 1);
      tokens.push_back(static_cast<int>(std::ranges::max_element(last) - last.begin()));
      longer.add(tokens);
    }
    written = longer;
  }
  for (std::size_t row = 0; row < data.rows.size(); ++row)
    if (!std::ranges::equal(written[row], data.rows[row].target())) score.wrong.push_back(static_cast<int>(row));
  return score;
}

}  // namespace

BOOST_AUTO_TEST_CASE(expressions_by_split_and_seed, *boost::unit_test::precondition(test::ends_in_time)) {
  const Folder folder("measures");
  for (const char* split : {"course", "7"}) {
    const Finished r = run_training(
        folder, {"addsub",     "train", "--seed",         "5",  "--split",         split, "--epochs",       "8",
                 "--lr",       "0.005", "--enc-layers",   "1",  "--dec-layers",    "1",   "--d-ff",         "64",
                 "--schedule", "const", "--warmup-steps", "50", "--eval-interval", "4",   "--weight-decay", "0"},
        split);
    const addsub::Dataset data = addsub::drawn_dataset(5);
    const addsub::Split rows = addsub::split_dataset(5'000, split);
    std::set<int> all(rows.train.begin(), rows.train.end()), seen;
    for (const int row : rows.validation) BOOST_CHECK(all.insert(row).second);  // never in both parts
    BOOST_CHECK(all.size() == 5'000 && *all.rbegin() == 4'999 && rows.validation.size() == 500);
    const addsub::Dataset training = data.pick(rows.train), validation = data.pick(rows.validation);
    for (const addsub::Expression& e : training.rows) seen.insert(e.index());

    const auto saved = seppo::load_model<addsub::Model>(folder.path / split / "model.safetensors");
    const Fresh<addsub::Model> start(5, saved.model.config);
    check_near(r.steps[0]["loss"], addsub_score(start.model, training.pick(first_batch(4'500, r))).tokens.loss());

    const AddsubScore score = addsub_score(saved.model, validation);
    check_near(r.summary["val_loss"], score.tokens.loss());
    BOOST_CHECK_EQUAL(r.summary["val_token_accuracy"].get<double>(), score.tokens.accuracy());
    const auto wrong = static_cast<int>(score.wrong.size());
    BOOST_CHECK_EQUAL(r.summary["val_exact"].get<double>(), (500 - wrong) / 500.0);
    BOOST_CHECK_MESSAGE(wrong > 50 && wrong < 500, wrong);
    for (std::size_t place = 0; place < 4; ++place)
      BOOST_CHECK_EQUAL(r.summary["val_accuracy_at"][place].get<double>(), score.places[place] / 500.0);
    const auto is_fresh = [&](int row) {
      return !seen.contains(validation.rows[static_cast<std::size_t>(row)].index());
    };
    const auto fresh = std::ranges::count_if(numbers_from(0, 500), is_fresh),
               fresh_wrong = std::ranges::count_if(score.wrong, is_fresh);
    BOOST_CHECK(fresh > 300 && fresh < 500);
    BOOST_CHECK_EQUAL(r.summary["val_examples_not_in_train"].get<int>(), fresh);
    BOOST_CHECK_EQUAL(r.summary["val_exact_not_in_train"].get<double>(),
                      static_cast<double>(fresh - fresh_wrong) / static_cast<double>(fresh));

    if (split == std::string("course")) continue;
    // The validation rows of another split: whether they were trained on depends on the split of the training.
    const Result other = folder.run({"addsub", "eval", "--model", split, "--split", "course", "--json"});
    const addsub::Dataset rest = data.pick(addsub::split_dataset(5'000, "course").validation);
    const auto not_trained_on = std::ranges::count_if(rest.rows, [&](auto e) { return !seen.contains(e.index()); });
    BOOST_CHECK(not_trained_on > 20 && not_trained_on < 100);
    BOOST_CHECK_EQUAL(last_line(other.out)["val_examples_not_in_train"].get<int>(), not_trained_on);
    // All expressions, and those that are nowhere in the data.
    const Result eval = folder.run({"addsub", "eval", "--model", split, "--all", "--json"});
    const AddsubScore of_all = addsub_score(saved.model, addsub::all_expressions());
    for (const addsub::Expression& e : validation.rows) seen.insert(e.index());
    const auto unseen_wrong = std::ranges::count_if(of_all.wrong, [&](int row) { return !seen.contains(row); });
    const auto unseen = addsub::expressions() - static_cast<int>(seen.size());
    BOOST_CHECK_EQUAL(last_line(eval.out)["unseen_examples"].get<int>(), unseen);
    BOOST_CHECK_EQUAL(last_line(eval.out)["all_exact"].get<double>(),
                      (addsub::expressions() - static_cast<double>(of_all.wrong.size())) / addsub::expressions());
    BOOST_CHECK_EQUAL(last_line(eval.out)["unseen_exact"].get<double>(),
                      static_cast<double>(unseen - unseen_wrong) / unseen);
    BOOST_CHECK_EQUAL(last_line(eval.out)["all_token_accuracy"].get<double>(), of_all.tokens.accuracy());
    BOOST_CHECK_EQUAL(last_line(eval.out)["val_exact"].get<double>(), (500 - wrong) / 500.0);
  }
}

// Each of the 19,602 expressions is equally likely to be drawn, and each row equally likely to be for validation.
BOOST_AUTO_TEST_CASE(draws_and_splits_are_uniform) {
  const auto check = [](const std::vector<int>& counts, double expected, double of_variance, const char* what) {
    double sum = 0;
    for (const int count : counts) sum += (count - expected) * (count - expected) / expected;
    const double mean = static_cast<double>(counts.size()) * of_variance;
    BOOST_CHECK_MESSAGE(std::abs(sum - mean) < 6 * std::sqrt(2 * mean), what << ": " << sum << ", not " << mean);
  };
  std::vector<int> draws(static_cast<std::size_t>(addsub::expressions())), validates(200), first(200);
  for (std::uint64_t seed = 0; seed < 40; ++seed)
    for (const addsub::Expression& e : addsub::drawn_dataset(seed).rows) ++draws[static_cast<std::size_t>(e.index())];
  check(draws, 40 * 5000. / addsub::expressions(), 1, "expressions");
  for (int seed = 0; seed < 4000; ++seed) {
    const addsub::Split split = addsub::split_dataset(200, std::to_string(seed));
    for (const int row : split.validation) ++validates[static_cast<std::size_t>(row)];
    ++first[static_cast<std::size_t>(split.train[0])];
  }
  check(validates, 400, 0.9, "rows for validation");
  check(first, 20, 1, "the first row to train on");
  for (const bool is_count : {false, true}) {
    std::vector<int> symbols(is_count ? 16 : 10);
    for (const int symbol : drawn(3, is_count ? 20 : 10, 20'000, is_count ? 16 : 10).tokens)
      ++symbols[static_cast<std::size_t>(symbol)];
    check(symbols, 320'000. / static_cast<double>(symbols.size()), 1, "symbols");
  }
  // The ten positions of the odd one are equally likely, and so are pairs of kinds, which differ within each set.
  const odd_one::World world(1, {.kinds = 7, .features = 1, .noise = 0});
  std::map<float, int> kinds;
  for (const float centre : world.centres) kinds[centre] = static_cast<int>(kinds.size());
  BOOST_REQUIRE_EQUAL(kinds.size(), 7);
  std::vector<int> places(10), pairs(49);
  const seppo::Inference guard;
  const odd_one::World::Sets sets = world.sets(numbers_from(0, 21'000));
  for (std::size_t i = 0; i < sets.odd.size(); ++i) {
    const std::size_t odd = static_cast<std::size_t>(sets.odd[i]);
    const auto kind_at = [&](std::size_t e) {
      return kinds.at(static_cast<float>(sets.elements.values()[10 * i + e]));
    };
    ++places[odd];
    ++pairs[static_cast<std::size_t>(7 * kind_at(odd) + kind_at((odd + 1) % 10))];
    for (std::size_t e = 0; e < 10; ++e) BOOST_REQUIRE_EQUAL(kind_at(e) == kind_at(odd), e == odd);
  }
  check(places, 2'100, 1, "places");
  std::erase(pairs, 0);
  BOOST_CHECK_EQUAL(pairs.size(), 42);
  check(pairs, 500, 1, "pairs of kinds");
}
