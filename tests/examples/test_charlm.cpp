// The character language model: its text, its scores, and the program as a user runs it.
// needs: programs: charlm
#include "charlm/model.h"
#include "charlm/text.h"
#include "support/program.h"

#include <seppo/nn/train/evaluate.h>

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <numeric>

using namespace test;
using charlm::Corpus;

namespace {

const std::string kVerse = "The quick brown fox jumps over the lazy dog, and the dog sleeps on.\n";

std::string verses(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += kVerse;
  return text;
}

std::vector<int> all(const charlm::Text& text) { return text.read(0, text.size()); }

}  // namespace

BOOST_AUTO_TEST_CASE(characters_are_code_points) {
  const seppo::Vocabulary vocabulary{"a", "b", "é", "→", "😀"};
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
  BOOST_CHECK_EQUAL(corpus.vocabulary.token(all(corpus.validation)[4]), "é");
  BOOST_CHECK_THROW(charlm::read_corpus(folder.path / "t.txt", 0.5, 8), seppo::FormatError);
  BOOST_CHECK_THROW(charlm::read_corpus(folder.path / "no.txt", 0.5, 2), seppo::FileError);
  // The same part encoded with another vocabulary; text before it may contain characters that this vocabulary lacks.
  const seppo::Vocabulary other{"é", "f", "e", "d", "c"};
  BOOST_TEST(
      all(charlm::read_validation(folder.path / "t.txt", 0.5, other)) == (std::vector<int>{4, 3, 2, 1, 0, 3, 2, 1}),
      boost::test_tools::per_element());
  folder.write("u.txt", "abcabc\ndef\ndxf");
  BOOST_CHECK_EXCEPTION(charlm::read_validation(folder.path / "u.txt", 0.5, {"\n", "d", "e", "f"}), seppo::FormatError,
                        [](const seppo::FormatError& e) {
                          return std::string(e.what()).find("u.txt:3:2: the character 'x' is not") != std::string::npos;
                        });
}

// Multi-byte characters span the pieces in which a file is read. A byte order mark is not a character.
BOOST_AUTO_TEST_CASE(a_corpus_of_many_pieces) {
  const Folder folder("charlm");
  const std::string characters[] = {"a", "é", "→", "😀"};
  std::string text;
  std::vector<int> expected;
  for (unsigned i = 0; i < 400'000; ++i) {
    expected.push_back(static_cast<int>(i * i % 7 % 4));
    text += characters[expected.back()];
  }
  for (const char* mark : {"", "\xef\xbb\xbf"}) {
    folder.write("t.txt", mark + text);
    const Corpus corpus = charlm::read_corpus(folder.path / "t.txt", 0.75, 10);
    BOOST_CHECK((corpus.vocabulary.tokens() == std::vector<std::string>(characters, characters + 4)));
    BOOST_CHECK_EQUAL(corpus.train.size(), 300'000);
    const auto at = [&](std::ptrdiff_t i) { return expected.begin() + i; };
    BOOST_CHECK(all(corpus.train) == std::vector<int>(at(0), at(300'000)));
    BOOST_CHECK(all(corpus.validation) == std::vector<int>(at(300'000), expected.end()));
    for (const std::size_t first : {0u, 1u, 4095u, 4096u, 8191u, 94'000u})
      for (const std::size_t count : {1u, 64u, 5000u})
        BOOST_CHECK(corpus.validation.read(first, count).size() == count &&
                    std::ranges::equal(corpus.validation.read(first, count),
                                       std::span(expected).subspan(300'000 + first).first(count)));
  }
}

// A file that changes during training must lead neither to other training data nor to a crash.
BOOST_AUTO_TEST_CASE(a_text_that_changes_is_an_error) {
  const Folder folder("charlm");
  folder.write("t.txt", verses(1000));  // 68 bytes each
  const Corpus corpus = charlm::read_corpus(folder.path / "t.txt", 0.5, 10);
  const auto before = all(corpus.train);
  const auto fails = [](const charlm::Text& text, std::size_t at, const std::string& part) {
    BOOST_CHECK_EXCEPTION(text.read(at, 10), seppo::FormatError, [&](const seppo::FormatError& e) {
      return std::string(e.what()).find(part) != std::string::npos;
    });
  };
  std::fstream(folder.path / "t.txt", std::ios::in | std::ios::out).seekp(20'000).put('T');
  fails(corpus.train, 20'400, "t.txt: bytes 16384 to 20480 have changed");
  BOOST_CHECK(corpus.train.read(0, 16'384) == std::vector<int>(before.begin(), before.begin() + 16'384));
  fs::resize_file(folder.path / "t.txt", 40'000);
  fails(corpus.validation, 7'000, "t.txt: bytes 40960 to 45056 have changed");
  fs::resize_file(folder.path / "t.txt", 0);
  fails(corpus.train, 0, "t.txt: bytes 0 to 4096 have changed");

  folder.write("u.txt", verses(1000));
  const pid_t child = folder.start({"charlm", "train", "--data", "u.txt", "--d-model", "16", "--heads", "2", "--layers",
                                    "1", "--epochs", "100", "--log-interval", "1", "--log-format", "plain"});
  while (read(folder.path.string() + ".err").find("step") == std::string::npos) ::usleep(10'000);
  fs::resize_file(folder.path / "u.txt", 1000);
  const Result r = folder.finish(child);
  BOOST_CHECK_MESSAGE(r.code == 1 && r.err.find("have changed since the text was first read\n") != std::string::npos,
                      r.code << r.err);
}

// A few bytes per 4096 characters, not the whole text.
BOOST_AUTO_TEST_CASE(a_large_text_takes_little_memory) {
  const Folder folder("charlm");
  folder.write("t.txt", verses(is_in_memcheck() ? 10'000 : 1'000'000));  // 68 MB
  const std::vector<std::string> train{"charlm",      "train", "--data",    "t.txt",      "--train-share", "0.99",
                                       "--max-steps", "1",     "--d-model", "8",          "--heads",       "1",
                                       "--layers",    "1",     "--json",    "--overwrite"};
  const Result large = folder.run(train);
  BOOST_REQUIRE_MESSAGE(large.code == 0, large.err);
  folder.write("t.txt", verses(is_in_memcheck() ? 1'000 : 100'000));
  const double least = last_line(folder.run(train).out)["peak_rss_mb"].get<double>();
  if (!takes_memory_itself()) BOOST_CHECK_LT(last_line(large.out)["peak_rss_mb"].get<double>(), least + 5);
}

// Each character is scored once, given those before it in its window, however much the windows overlap.
BOOST_AUTO_TEST_CASE(the_score_counts_each_character_once) {
  seppo::Parameters parameters(1);
  const seppo::LanguageModel model(parameters.root(), {.vocabulary = 5,
                                                       .layer = {.d_model = 8, .n_heads = 2, .d_ff = 32, .dropout = 0},
                                                       .n_layers = 1,
                                                       .max_length = 4});
  seppo::RandomStream random(1, seppo::Purpose::test);
  std::string characters = "abcde";
  for (int i = 0; i < 200; ++i) characters += static_cast<char>('a' + random.below(5));
  const Folder folder("charlm");
  folder.write("t.txt", characters);
  const Corpus corpus = charlm::read_corpus(folder.path / "t.txt", 0.5, 1);
  const std::vector<int> text = all(corpus.validation);
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
  const charlm::Windows windows = charlm::consecutive_windows(corpus.validation, 4);
  std::vector<int> indices(windows.size());
  std::iota(indices.begin(), indices.end(), 0);
  const auto loss = [&](std::span<const int> some) { return charlm::loss(model, windows.pick(some)); };
  const seppo::Sums sums = seppo::evaluate(indices, loss);
  BOOST_CHECK_EQUAL(sums["count"], 102);
  BOOST_CHECK_CLOSE(sums.mean("loss"), total / 102, 1e-4);
}

BOOST_AUTO_TEST_CASE(a_text_is_learnt_and_written, *boost::unit_test::precondition(test::ends_in_time)) {
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
  // A full window advances by a quarter of its length unless told otherwise.
  const auto long_sample = [&](const std::string& stride) {
    return folder.run({"charlm", "sample", "--model", "m", "--length", "200", "--temperature", "3", "--stride", stride})
        .out;
  };
  BOOST_CHECK(long_sample("0") == long_sample("8"));
  BOOST_CHECK(long_sample("0") != long_sample("1") && long_sample("0") != long_sample("9"));
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
  check_refused(folder, {"charlm", "sample"}, 2, "bin/charlm train");
  check_refused(folder, {"charlm", "sample", "--temperature", "-1"}, 2, "--temperature");
  check_refused(folder, {"charlm", "sample", "--top-p", "0"}, 2, "--top-p");
}

// A model is scored on what its own training left out, unless another share is asked for.
BOOST_AUTO_TEST_CASE(eval_leaves_out_what_was_trained_on) {
  const Folder folder("charlm");
  folder.write("verse.txt", verses(20) + "a text whose end is quite unlike the verses before it\n");
  const Result trained =
      folder.run({"charlm",       "train", "--data",  "verse.txt", "--d-model",     "8",   "--heads",     "2",
                  "--layers",     "1",     "--block", "16",        "--train-share", "0.5", "--max-steps", "20",
                  "--log-format", "none",  "--out",   "m",         "--json"});
  BOOST_REQUIRE_MESSAGE(trained.code == 0, trained.err);
  const double at_training = last_line(trained.out)["val_loss"].get<double>();
  const auto loss = [&](std::vector<std::string> command) {
    command.insert(command.begin(), {"charlm", "eval", "--model", "m", "--data", "verse.txt", "--json"});
    const Result r = folder.run(command);
    BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
    return last_line(r.out)["val_loss"].get<double>();
  };
  BOOST_CHECK_EQUAL(loss({}), at_training);
  BOOST_CHECK_EQUAL(loss({"--train-share", "0.5"}), at_training);
  BOOST_CHECK_NE(loss({"--train-share", "0.9"}), at_training);
}

// Where a text has no lines, none can begin.
BOOST_AUTO_TEST_CASE(a_text_without_lines_is_continued) {
  const Folder folder("charlm");
  folder.write("text", "b" + std::string(200, 'a') + std::string(40, 'b'));
  const Words train = words("charlm train --data text --d-model 8 --heads 2 --layers 1 --block 16 --max-steps 1");
  BOOST_REQUIRE_EQUAL(folder.run(with(train, {"--log-format", "none", "--out", "m"})).code, 0);
  const Words sample = words("charlm sample --model m --length 5 --temperature 0");
  const Result r = folder.run(sample);
  BOOST_CHECK_MESSAGE(r.code == 0 && r.out.size() == 7 && r.out.starts_with("a"), r.err);
  BOOST_CHECK_EQUAL(r.out, folder.run(with(sample, {"--prompt", "a"})).out);
  check_refused(folder, with(sample, {"--stride", "17"}), 2, "--stride: 17 is more than the model's window, 16");
}
