// The character language model: its text, its scores, and the program as a person runs it.
#define BOOST_TEST_MODULE charlm
#include "charlm/model.h"
#include "charlm/text.h"
#include "support/program.h"

#include <boost/test/unit_test.hpp>

#include <cmath>

using namespace test;
using charlm::Corpus;

namespace {

const std::string kVerse = "The quick brown fox jumps over the lazy dog, and the dog sleeps on.\n";

std::string verses(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += kVerse;
  return text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(characters_are_code_points) {
  const examples::Vocabulary vocabulary{"a", "b", "é", "→", "😀"};
  BOOST_TEST(charlm::encode(vocabulary, "é😀a→", "text") == (std::vector<int>{2, 4, 0, 3}),
             boost::test_tools::per_element());
  const auto says = [&](std::string_view text, const std::string& part) {
    BOOST_CHECK_EXCEPTION(
        charlm::encode(vocabulary, text, "text"), seppo::FormatError,
        [&](const seppo::FormatError& e) { return std::string(e.what()).find(part) != std::string::npos; });
  };
  for (const char* bad : {"ab\xff", "ab\xc3", "ab\xe2\x82", "ab\xc0\x80", "ab\xed\xa0\x80"}) says(bad, "text: byte 2");
  says("abc", "text: the character 'c' is not among the model's 5");
}

BOOST_AUTO_TEST_CASE(a_corpus_is_cut_in_two) {
  const Folder folder("charlm");
  folder.write("t.txt", "abcabcabcdefédef");
  const Corpus corpus = charlm::read_corpus(folder.path / "t.txt", 0.5, 2);
  BOOST_CHECK_EQUAL(corpus.vocabulary.size(), 7);
  BOOST_CHECK(corpus.train.size() == 8 && corpus.validation.size() == 8);
  BOOST_CHECK_EQUAL(corpus.vocabulary.token(corpus.validation[4]), "é");
  BOOST_CHECK_THROW(charlm::read_corpus(folder.path / "t.txt", 0.5, 8), seppo::FormatError);
  BOOST_CHECK_THROW(charlm::read_corpus(folder.path / "no.txt", 0.5, 2), seppo::FileError);
  // The same part in the numbers of another vocabulary; what is before it may have characters that this one lacks.
  const examples::Vocabulary other{"é", "f", "e", "d", "c"};
  BOOST_TEST(charlm::read_validation(folder.path / "t.txt", 0.5, other) ==
                 (std::vector<charlm::Token>{4, 3, 2, 1, 0, 3, 2, 1}),
             boost::test_tools::per_element());
  folder.write("u.txt", "abcabc\ndef\ndxf");
  BOOST_CHECK_EXCEPTION(charlm::read_validation(folder.path / "u.txt", 0.5, {"\n", "d", "e", "f"}), seppo::FormatError,
                        [](const seppo::FormatError& e) {
                          return std::string(e.what()).find("u.txt:3:2: the character 'x' is not") != std::string::npos;
                        });
}

// Characters of several bytes lie across the pieces that a file is read in.
BOOST_AUTO_TEST_CASE(a_corpus_of_many_pieces) {
  const Folder folder("charlm");
  const std::string characters[] = {"a", "é", "→", "😀"};
  std::string text;
  std::vector<int> expected;
  for (unsigned i = 0; i < 400'000; ++i) {
    expected.push_back(static_cast<int>(i * i % 7 % 4));
    text += characters[expected.back()];
  }
  folder.write("t.txt", text);
  const Corpus corpus = charlm::read_corpus(folder.path / "t.txt", 0.75, 10);
  BOOST_CHECK((corpus.vocabulary.tokens() == std::vector<std::string>(characters, characters + 4)));
  BOOST_CHECK_EQUAL(corpus.train.size(), 300'000);
  BOOST_CHECK(std::equal(corpus.train.begin(), corpus.train.end(), expected.begin()));
  BOOST_CHECK(
      std::equal(corpus.validation.begin(), corpus.validation.end(), expected.begin() + 300'000, expected.end()));
}

// Two bytes a character and 64 MiB at most, whatever the text.
BOOST_AUTO_TEST_CASE(a_large_text_takes_little_memory) {
  const Folder folder("charlm");
  folder.write("t.txt", verses(1'000'000));  // 68 MB
  const Result r = folder.run({"charlm", "train", "--data", "t.txt", "--train-share", "0.99", "--max-steps", "1",
                               "--d-model", "8", "--heads", "1", "--layers", "1", "--json"});
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  BOOST_CHECK_LT(last_line(r.out)["peak_rss_mb"].get<double>(), 2 * 65 + 64);
}

// The score is that of each character given those before it in its window, whatever the windows share.
BOOST_AUTO_TEST_CASE(the_score_counts_each_character_once) {
  seppo::Parameters parameters(1);
  const seppo::LanguageModel model(parameters.root(), {.vocabulary = 5,
                                                       .layer = {.d_model = 8, .n_heads = 2, .d_ff = 32, .dropout = 0},
                                                       .n_layers = 1,
                                                       .max_length = 4});
  seppo::RandomStream random(1, seppo::Purpose::test);
  std::vector<charlm::Token> text;
  for (int i = 0; i < 203; ++i) text.push_back(static_cast<charlm::Token>(random.below(5)));
  double total = 0;
  for (std::size_t at = 0; at + 1 < text.size(); ++at) {
    const seppo::TapeMark mark;
    seppo::Ragged window;
    window.add(std::vector<int>(&text[at - at % 4], &text[at] + 1));
    const seppo::Tensor logits = model(window);
    const auto row = logits.values().last(5);
    double sum = 0;
    for (const seppo::real x : row) sum += std::exp(static_cast<double>(x));
    total += std::log(sum) - static_cast<double>(row[static_cast<std::size_t>(text[at + 1])]);
  }
  BOOST_CHECK_CLOSE(charlm::score(model, text), total / 202, 1e-4);
}

BOOST_AUTO_TEST_CASE(a_text_is_learnt_and_written) {
  const Folder folder("charlm");
  folder.write("t.txt", verses(40));
  const std::vector<std::string> train{"charlm",       "train", "--data",        "t.txt", "--d-model", "32",
                                       "--heads",      "2",     "--layers",      "2",     "--block",   "32",
                                       "--epochs",     "2",     "--epoch-steps", "100",   "--lr",      "0.003",
                                       "--log-format", "none",  "--json",        "--out", "m"};
  const Result first = folder.run(train);
  BOOST_REQUIRE_MESSAGE(first.code == 0, first.err);
  BOOST_CHECK_LT(last_line(first.out)["val_loss"].get<double>(), 0.3);
  const std::string bytes = read(folder.path / "m/model.safetensors");
  const Result again = folder.run(train);
  BOOST_CHECK(read(folder.path / "m/model.safetensors") == bytes);  // the same bytes

  const Result eval = folder.run({"charlm", "eval", "--model", "m", "--data", "t.txt", "--json"});
  BOOST_CHECK_EQUAL(last_line(eval.out)["val_loss"].get<double>(), last_line(first.out)["val_loss"].get<double>());

  const auto sample = [&](const std::string& seed) {
    return folder
        .run({"charlm", "sample", "--model", "m", "--prompt", "The quick", "--length", "30", "--seed", seed,
              "--temperature", "1.5"})
        .out;
  };
  BOOST_CHECK(sample("1") == sample("1"));
  BOOST_CHECK(sample("1") != sample("2"));
  const Result greedy =
      folder.run({"charlm", "sample", "--model", "m", "--prompt", "The quick", "--length", "30", "--temperature", "0"});
  BOOST_CHECK_EQUAL(greedy.out, "The quick brown fox jumps over the lazy\n");
}

BOOST_AUTO_TEST_CASE(mistakes_are_named) {
  const Folder folder("charlm");
  folder.write("short.txt", "abc");
  folder.write("binary.txt", std::string("abc\xff", 4));
  check_refused(folder, {"charlm", "train"}, 2, "--data");
  check_refused(folder, {"charlm", "train", "--data", "none.txt"}, 2, "none.txt");
  check_refused(folder, {"charlm", "train", "--data", "short.txt"}, 1,
                "short.txt: characters are too few: training has 2");
  check_refused(folder, {"charlm", "train", "--data", "binary.txt"}, 1, "binary.txt:1:4: byte 0xff is not UTF-8");
  check_refused(folder, {"charlm", "train", "--data", "short.txt", "--heads", "3"}, 2, "not a multiple");
  check_refused(folder, {"charlm", "sample"}, 2, "train one first: charlm train");
  check_refused(folder, {"charlm", "sample", "--temperature", "-1"}, 2, "--temperature");
  check_refused(folder, {"charlm", "sample", "--top-p", "0"}, 2, "--top-p");
}
