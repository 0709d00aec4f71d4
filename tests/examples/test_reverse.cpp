// Reversal by an encoder and a decoder: its targets, and the program as a user runs it. The encoder alone is tested in
// test_commands.cpp and test_reported_measures.cpp.
// needs: programs: reverse
#include "app/sequences.h"
#include "reverse/model.h"
#include "support/program.h"

#include <seppo/autograd/core/guards.h>
#include <seppo/nn/io/model_file.h>

#include <boost/test/unit_test.hpp>

#include <map>

using namespace test;
using reversal::Architecture;
using reversal::kBos;
using reversal::kEos;
using seppo::Ragged;

namespace {

const Words kTrain{"reverse", "train", "--architecture", "encoder-decoder", "--log-format", "none"};

}  // namespace

BOOST_AUTO_TEST_CASE(a_decoder_reads_what_it_has_written) {
  const Ragged sequences = Ragged::of({{1, 2, 3}, {7}});
  const Ragged all = reversal::targets(sequences, Architecture::encoder);
  BOOST_CHECK(all.tokens == std::vector({3, 2, 1, 7}) && all.offsets == std::vector({0, 3, 4}));
  const Ragged written = reversal::targets(sequences, Architecture::encoder_decoder);
  BOOST_CHECK(written.tokens == std::vector({3, 2, 1, kEos, 7, kEos}) && written.offsets == std::vector({0, 4, 6}));
  const Ragged read = reversal::read_for(written);
  BOOST_CHECK(read.tokens == std::vector({kBos, 3, 2, 1, kBos, 7}) && read.offsets == written.offsets);
}

// One epoch of its recipe is enough. The answers are decoded one token after another, without the right ones.
BOOST_AUTO_TEST_CASE(sixteen_digits_are_written_backwards, *boost::unit_test::precondition(test::ends_in_time)) {
  const Folder folder("reverse");
  const Result trained = folder.run(with(kTrain, {"--epochs", "1", "--seed", "5", "--json", "--out", "m"}));
  BOOST_REQUIRE_MESSAGE(trained.code == 0, trained.err);
  BOOST_CHECK_GT(last_line(trained.out)["val_exact"].get<double>(), 0.95);
  const Result evaluated = folder.run({"reverse", "eval", "--model", "m", "--json"});
  BOOST_CHECK_GT(last_line(evaluated.out)["test_exact"].get<double>(), 0.95);

  const auto saved = seppo::load_model<reversal::Model>(folder.path / "m/model.safetensors");
  const seppo::Inference guard;
  const std::vector<int> digits{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
  std::vector<int> read{kBos}, written;
  const Ragged source = Ragged::of({digits});
  while (written.empty() || (written.back() != kEos && written.size() < 17)) {
    written.push_back(argmax(saved.model.transformer->logits(source, Ragged::of({read}))).back());
    read.push_back(written.back());
  }
  BOOST_CHECK(saved.model.answers(source).tokens == written);
  std::string text;
  for (std::size_t i = 0; i + 1 < written.size(); ++i) text += (i ? " " : "") + std::to_string(written[i]);
  const std::string answer = folder.run({"reverse", "predict", "--model", "m", "3141592653589793"}).out;
  BOOST_CHECK_MESSAGE(answer.starts_with(text + "\n") || answer.starts_with(text + "   wrong: it is 3 9 7 9"), answer);
}

BOOST_AUTO_TEST_CASE(its_maps_are_named_by_what_is_written) {
  const Folder folder("reverse");
  BOOST_REQUIRE_EQUAL(folder.run(with(kTrain, {"--max-steps", "1", "--out", "m"})).code, 0);
  const Result r = folder.run({"reverse", "predict", "--model", "m", "--attention", "3141592653589793"});
  const std::string first = words(r.out).at(0);
  const std::size_t self = r.out.find("decoder.0.self_attn, head 0"),
                    cross = r.out.find("decoder.0.cross_attn, head 0");
  BOOST_REQUIRE_MESSAGE(self != std::string::npos && cross != std::string::npos, r.out);
  const std::string own = r.out.substr(self, cross - self);
  const std::size_t keys = own.find('\n') + 1;
  const std::size_t rows = own.rfind('\n', own.find('|')) + 1;
  BOOST_CHECK_EQUAL(words(own.substr(keys)).at(0), "BOS");  // the first key that the decoder reads
  BOOST_CHECK_EQUAL(words(own.substr(rows)).at(0), first);  // the first row is of the first token written
}

BOOST_AUTO_TEST_CASE(its_training_resumes_with_the_same_bytes, *boost::unit_test::precondition(test::ends_in_time)) {
  const Folder folder("reverse");
  const Words small = with(kTrain, {"--d-model", "8", "--dropout", "0.1", "--epoch-steps", "9", "--batch-size", "16"});
  BOOST_REQUIRE_EQUAL(folder.run(with(small, {"--max-steps", "20", "--out", "whole"})).code, 0);
  BOOST_REQUIRE_EQUAL(folder.run(with(small, {"--max-steps", "12", "--out", "cut"})).code, 0);
  const Result resumed = folder.run({"reverse", "train", "--resume", "cut", "--max-steps", "20"});
  BOOST_REQUIRE_MESSAGE(resumed.code == 0, resumed.err);
  BOOST_CHECK(read(folder.path / "whole/model.safetensors") == read(folder.path / "cut/model.safetensors"));
}

BOOST_AUTO_TEST_CASE(lengths_are_a_number_or_a_range) {
  const auto is = [](const std::string& text, int least, int most) {
    const examples::Lengths lengths = examples::lengths_in(text, "lengths");
    return lengths.least == least && lengths.most == most && examples::text_of(lengths) == text;
  };
  BOOST_CHECK(is("16", 16, 16) && is("4-16", 4, 16) && is("1-10000", 1, 10'000));
  for (const char* text : {"", "0", "16-4", "4-", "-4", "4-16x", "4-16-32", "four", "10001", "4 - 16", "99999999999"})
    BOOST_CHECK_EXCEPTION(examples::lengths_in(text, "lengths"), seppo::ArgumentError, [&](const std::exception& e) {
      return std::string(e.what()).starts_with("lengths '" + std::string(text) + "' is neither");
    });
}

// Each length of the range is as frequent as the others; a single one costs no random number.
BOOST_AUTO_TEST_CASE(sequences_have_the_lengths_asked_for) {
  const seppo::RandomStream random(1, seppo::Purpose::test);
  std::map<std::size_t, int> count;
  const Ragged mixed = examples::random_sequences(random, 3000, {2, 4}, 10);
  for (std::size_t s = 0; s < mixed.size(); ++s) ++count[mixed[s].size()];
  BOOST_CHECK_EQUAL(count.size(), 3u);
  for (const auto& [length, sequences] : count) {
    BOOST_CHECK(2 <= length && length <= 4);
    BOOST_CHECK_SMALL(sequences / 1000.0 - 1, 0.15);
  }
  const Ragged equal = examples::random_sequences(random, 2, {3, 3}, 10);
  seppo::RandomStream same = random;
  std::vector<int> expected;
  for (int i = 0; i < 6; ++i) expected.push_back(static_cast<int>(same.below(10)));
  BOOST_CHECK(equal.tokens == expected && equal.offsets == std::vector({0, 3, 6}));
}

BOOST_AUTO_TEST_CASE(a_test_may_have_other_lengths_than_the_training,
                     *boost::unit_test::precondition(test::ends_in_time)) {
  const Folder folder("reverse");
  const Words lengths{"--lengths", "2-4", "--test-lengths", "6", "--max-steps", "30", "--out", "m", "--json"};
  for (const char* architecture : {"encoder", "encoder-decoder"}) {
    const Words train{"reverse", "train", "--architecture", architecture, "--log-format", "none", "--overwrite"};
    const Result trained = folder.run(with(train, lengths));
    BOOST_REQUIRE_MESSAGE(trained.code == 0, trained.err);
    const Result own = folder.run({"reverse", "eval", "--model", "m", "--json"});
    const Result other = folder.run({"reverse", "eval", "--model", "m", "--json", "--test-lengths", "2-3"});
    BOOST_REQUIRE_MESSAGE(own.code == 0 && other.code == 0, own.err << other.err);
    const auto loss = [](const Result& result, const char* part) { return last_line(result.out)[part].get<double>(); };
    BOOST_CHECK_EQUAL(loss(own, "val_loss"), loss(other, "val_loss"));
    BOOST_CHECK_GT(loss(own, "test_loss"), loss(other, "test_loss"));
    BOOST_CHECK_EQUAL(loss(trained, "val_loss"), loss(own, "val_loss"));
    BOOST_CHECK_EQUAL(folder.run({"reverse", "predict", "--model", "m", "31", "314159"}).code, 0);
    for (const char* text : {"3", "3141592"}) {
      const Result r = folder.run({"reverse", "predict", "--model", "m", text});
      BOOST_CHECK_MESSAGE(r.code == 1 && r.err.find("digits, not 2-6") != std::string::npos, r.err);
    }
    check_refused(folder, {"reverse", "eval", "--model", "m", "--test-lengths", "2-7"}, 2,
                  "--test-lengths: 7 digits are more than 6");
    check_refused(folder, {"reverse", "eval", "--model", "m", "--test-lengths", "abc"}, 2,
                  "--test-lengths 'abc' is neither a number");
  }
  const std::string rows = folder.run({"reverse", "data", "--lengths", "2", "--head", "1"}).out;
  BOOST_CHECK_EQUAL(words(rows.substr(0, rows.find('\n'))).size(), 5u);  // 3 1 -> 1 3
  for (const char* option : {"--lengths", "--test-lengths"})
    check_refused(folder, {"reverse", "train", option, "16-4"}, 2, option + std::string(" '16-4' is neither a number"));
  check_refused(folder, {"reverse", "data", "--lengths", "16-4"}, 2, "--lengths '16-4' is neither a number");
}

// Where the answer's place and a token of the source have the same position, the token is what is to be written.
BOOST_AUTO_TEST_CASE(a_digit_has_the_position_of_its_place_in_the_answer) {
  const Ragged sequences = Ragged::of({{1, 2, 3}, {7}}), source = reversal::after_bos(sequences);
  BOOST_CHECK(source.tokens == std::vector({kBos, 1, 2, 3, kBos, 7}));
  const Ragged places = Ragged::of({{0, 4, 5, 9}, {6, 7}}), positions = reversal::backwards(places);
  BOOST_CHECK(positions.tokens == std::vector({9, 5, 4, 0, 7, 6}));
  const Ragged written = reversal::targets(sequences, Architecture::encoder_decoder);
  for (std::size_t i = 0; i < places.tokens.size(); ++i) {
    const auto j =
        static_cast<std::size_t>(std::ranges::find(positions.tokens, places.tokens[i]) - positions.tokens.begin());
    const int right = written.tokens[i];
    BOOST_CHECK_EQUAL(source.tokens[j], right == kEos ? kBos : right);
  }
}

// All numbers occur, and neighbours at all distances. Within a window of w numbers, 3 / w of them are next to each
// other: 0.536 in the mean.
BOOST_AUTO_TEST_CASE(positions_of_training_rise_through_all_that_there_are) {
  seppo::RandomStream random(1, seppo::Purpose::test);
  std::map<int, int> numbers, steps;
  for (int i = 0; i < 10'000; ++i) {
    const std::vector<int> some = reversal::rising(random, 3, 10);
    BOOST_REQUIRE_EQUAL(some.size(), 3u);
    for (const int n : some) ++numbers[n];
    for (std::size_t k = 1; k < 3; ++k) {
      BOOST_REQUIRE_GT(some[k], some[k - 1]);
      ++steps[some[k] - some[k - 1]];
    }
  }
  BOOST_CHECK(numbers.size() == 10 && numbers.begin()->first == 0 && steps.size() == 8);
  BOOST_CHECK_CLOSE(steps[1] / 20e3, 0.536, 3.0);
  // The ends are not much rarer than the middle, and there are as many draws of one as of the other.
  for (const int end : {0, 9}) BOOST_CHECK_CLOSE(numbers[end] / 10e3, 0.216, 6.0);
  for (const int middle : {4, 5}) BOOST_CHECK_CLOSE(numbers[middle] / 10e3, 0.350, 6.0);
  BOOST_CHECK(reversal::rising(random, 4, 4) == std::vector({0, 1, 2, 3}));
}

// In training, which is decided by seed and step; otherwise they are 0, 1, 2 ...
BOOST_AUTO_TEST_CASE(coupled_positions_are_drawn_in_training_only) {
  seppo::Parameters parameters(1);
  reversal::ModelConfig config{
      .positions = examples::Positions::coupled, .architecture = Architecture::encoder_decoder, .max_length = 40};
  const reversal::Model model(parameters.root(), config);
  const Ragged sequences = Ragged::of({{1, 2, 3}, {7, 7}});
  const auto scores = [&](seppo::Mode mode, std::uint32_t step) {
    const seppo::UseMode use(mode);
    seppo::tape().clear();
    seppo::tape().random = {.seed = 1, .step = step};
    const seppo::Tensor y = model(sequences);
    return std::vector<seppo::real>(y.values().begin(), y.values().end());
  };
  using seppo::Mode;
  BOOST_CHECK(scores(Mode::train, 3) == scores(Mode::train, 3) && scores(Mode::train, 3) != scores(Mode::train, 4));
  BOOST_CHECK(scores(Mode::eval, 3) == scores(Mode::eval, 4) && scores(Mode::eval, 3) != scores(Mode::train, 3));
  BOOST_CHECK_EQUAL(model.answers(sequences).size(), 2u);
  BOOST_CHECK_THROW(onnx_graph(model), seppo::ArgumentError);  // which would number positions from 0
}

// The record of docs/records.md in short: 2 of its 15 epochs, twice the training's longest sequences.
BOOST_AUTO_TEST_CASE(longer_sequences_than_in_training_are_reversed,
                     *boost::unit_test::precondition(test::ends_in_time)) {
  const Folder folder("reverse");
  const Result trained = folder.run({"reverse", "train", "--preset", "longer", "--test-lengths", "32", "--epochs", "2",
                                     "--log-format", "none", "--out", "m"});
  BOOST_REQUIRE_MESSAGE(trained.code == 0, trained.err);
  const Result evaluated = folder.run({"reverse", "eval", "--model", "m", "--json"});
  BOOST_CHECK_GT(last_line(evaluated.out)["test_exact"].get<double>(), 0.9);
}

BOOST_AUTO_TEST_CASE(only_an_encoder_decoder_couples_positions) {
  const Folder folder("reverse");
  check_refused(folder, {"reverse", "train", "--positions", "coupled", "--out", "m"}, 2, "--positions coupled");
}

BOOST_AUTO_TEST_CASE(the_plain_model_has_no_decoder) {
  const Folder folder("reverse");
  check_refused(folder, with(kTrain, {"--preset", "plain"}), 2, "--architecture");
}
