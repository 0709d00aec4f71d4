// SentencePiece's tokenizer.model: the tokens of a search of its own, options, special tokens, and damaged files.
// needs: libraries: seppo::text
#include <seppo/autograd/core/check.h>
#include <seppo/nn/text/sentencepiece_model.h>
#include <seppo/nn/text/tokenizer_folder.h>

#include "support/program.h"
#include "support/sentencepiece.h"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

using seppo::FormatError;
using seppo::Tokenizer;
using test::Folder;
using namespace test::sentencepiece;

namespace {

const std::string kMark = "\u2581";

// Letters, the mark, and random texts of them, with random scores.
Model random_model(std::mt19937& random) {
  Model model;
  std::vector<std::string> letters{kMark, "a", "b", "c"};
  for (const std::string& letter : letters) model.add(letter, -100);
  for (int i = 0; i < 30; ++i) {
    std::string piece = random() % 3 == 0 ? kMark : "";
    for (std::size_t length = 2 + random() % 3; length > 0; --length) piece += letters[1 + random() % 3];
    if (!model.scores.contains(piece)) model.add(piece, -static_cast<float>(random() % 20) / 8);  // with ties
  }
  return model;
}

Tokenizer read(const Model& model) {
  const Folder folder("sentencepiece");
  folder.write("tokenizer.model", model.bytes());
  return seppo::read_sentencepiece_model(folder.path / "tokenizer.model");
}

// The best-scored pair of neighbours merges first, the leftmost of equal ones.
std::vector<std::string> merged(const Model& model, std::vector<std::string> tokens) {
  while (true) {
    std::size_t best = tokens.size();
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      const auto found = model.scores.find(tokens[i] + tokens[i + 1]);
      if (found == model.scores.end()) continue;
      if (best == tokens.size() || found->second > model.scores.at(tokens[best] + tokens[best + 1])) best = i;
    }
    if (best == tokens.size()) return tokens;
    tokens[best] += tokens[best + 1];
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

// The highest sum of scores of any split.
double best_sum(const Model& model, const std::string& text) {
  std::vector<double> best(text.size() + 1, -1e30);
  best[0] = 0;
  for (std::size_t end = 1; end <= text.size(); ++end)
    for (std::size_t begin = 0; begin < end; ++begin) {
      const auto found = model.scores.find(text.substr(begin, end - begin));
      if (found != model.scores.end())
        best[end] = std::max(best[end], best[begin] + static_cast<double>(found->second));
    }
  return best.back();
}

std::string random_text(std::mt19937& random) {
  std::string text;
  for (std::size_t length = 1 + random() % 20; length > 0; --length) text += "abc "[random() % 4];
  return text;
}

// The text with marks for spaces, and one before it if it begins with one; with `trims`, without needless spaces.
std::vector<std::string> marked(const std::string& text, bool trims, bool begins = true) {
  std::vector<std::string> letters;
  if (begins) letters.push_back(kMark);
  const std::size_t begin = trims ? text.find_first_not_of(' ') : 0;
  if (begin == text.npos) return {};
  for (std::size_t i = begin; i < text.size(); ++i) {
    const bool is_needless = trims && text[i] == ' ' && (i + 1 == text.size() || text[i + 1] == ' ');
    if (!is_needless) letters.push_back(text[i] == ' ' ? kMark : std::string(1, text[i]));
  }
  while (trims && !letters.empty() && letters.back() == kMark) letters.pop_back();
  return letters;
}

void add_bytes(Model& model) {
  for (int i = 0; i < 256; ++i) {
    const char* const digits = "0123456789ABCDEF";
    model.add(std::string("<0x") + digits[i / 16] + digits[i % 16] + ">", 0, byte);
  }
}

void refused(const std::string& bytes, const std::string& part) {
  const Folder folder("sentencepiece");
  folder.write("tokenizer.model", bytes);
  BOOST_CHECK_EXCEPTION(
      seppo::read_sentencepiece_model(folder.path / "tokenizer.model"), FormatError, [&](const FormatError& e) {
        const std::string message = e.what();
        return message.find("tokenizer.model: ") != message.npos && message.find(part) != message.npos;
      });
}

}  // namespace

BOOST_AUTO_TEST_CASE(bpe_merges_by_score) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    Model model = random_model(random);
    const bool trims = round % 2 == 0;
    const bool begins = round % 3 != 0;
    model.normalizer = number(3, begins ? 1 : 0) + number(4, trims ? 1 : 0);
    const Tokenizer tokenizer = read(model);
    for (int i = 0; i < 20; ++i) {
      const std::string text = random_text(random);
      std::vector<std::string> pieces;
      for (const int id : tokenizer.encode(text)) pieces.push_back(model.texts[static_cast<std::size_t>(id)]);
      const std::vector<std::string> expected = merged(model, marked(text, trims, begins));
      BOOST_TEST(pieces == expected, boost::test_tools::per_element());
      if (!trims) BOOST_TEST(tokenizer.decode(tokenizer.encode(text)) == text);
    }
  }
}

// As SentencePiece's comparator says, whichever of the results has the lower id.
BOOST_AUTO_TEST_CASE(the_leftmost_of_equal_pairs_merges_first) {
  Model model;
  for (const char* piece : {"\u4e2d", "\u56fd", "\u4eba", "\u56fd\u4eba", "\u4e2d\u56fd"}) model.add(piece, 0);
  model.normalizer = number(3, 0);
  BOOST_TEST(read(model).encode("\u4e2d\u56fd\u4eba") == (std::vector<int>{7, 5}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(long_runs_of_spaces_are_one) {
  Model model;
  for (const std::string& piece : {kMark, std::string("a"), std::string("b")}) model.add(piece, -1);
  const std::string spaces(100'000, ' ');
  BOOST_TEST(read(model).encode(spaces + "a" + spaces + "b" + spaces) == (std::vector<int>{3, 4, 3, 5}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(unigram_has_the_best_sum_of_scores) {
  std::mt19937 random(2);
  for (int round = 0; round < 20; ++round) {
    Model model = random_model(random);
    model.trainer = number(3, 1);
    model.normalizer = number(4, 0);
    const Tokenizer tokenizer = read(model);
    for (int i = 0; i < 20; ++i) {
      const std::string text = random_text(random);
      std::string joined, whole;
      double sum = 0;
      for (const int id : tokenizer.encode(text)) {
        joined += model.texts[static_cast<std::size_t>(id)];
        sum += static_cast<double>(model.scores.at(model.texts[static_cast<std::size_t>(id)]));
      }
      for (const std::string& letter : marked(text, false)) whole += letter;
      BOOST_TEST(joined == whole);
      BOOST_TEST(sum == best_sum(model, whole), boost::test_tools::tolerance(1e-6));
    }
  }
}

// Ids of SentencePiece 0.2.3: no piece that is unused or a byte is found in a text, nor counts as the lowest score.
BOOST_AUTO_TEST_CASE(pieces_that_texts_do_not_have) {
  Model model;
  add_bytes(model);
  model.trainer = number(3, 1) + number(35, 1);
  model.normalizer = number(3, 0);
  for (const auto& [piece, score] : std::map<std::string, float>{{"a", -5}, {"ab", -1}, {"b", -20}, {"xa", -40}})
    model.add(piece, score);
  model.add("z", -100, unused);
  model.add("ba", -1, unused);
  const int a = 259, ab = 260, b = 261;
  const Tokenizer tokenizer = read(model);
  const auto check = [&](const std::string& text, const std::vector<int>& ids) {
    BOOST_TEST(tokenizer.encode(text) == ids, boost::test_tools::per_element());
  };
  check("xab", {3 + 'x', ab});
  check("bab", {b, ab});
  check("z", {3 + 'z'});
  check("<0x41>a", {3 + '<', 3 + '0', 3 + 'x', 3 + '4', 3 + '1', 3 + '>', a});
}

// A piece that its makers defined is found before any other, and kept in the text; a special one is not.
BOOST_AUTO_TEST_CASE(defined_pieces_are_found_first) {
  Model model;
  for (const std::string& piece : {kMark, std::string("a"), std::string("b"), std::string("ab")}) model.add(piece, -1);
  model.add("<sep>", 0, user_defined);
  model.add("ba", 0, user_defined);
  model.normalizer = number(3, 0) + number(4, 0);
  const Tokenizer tokenizer = read(model);
  const int a = 4, ab = 6, sep = 7, ba = 8;
  BOOST_TEST(tokenizer.encode("ab<sep>aba") == (std::vector<int>{ab, sep, a, ba}), boost::test_tools::per_element());
  BOOST_TEST(tokenizer.decode(std::vector<int>{ab, sep, a, ba}) == "ab<sep>aba");
}

BOOST_AUTO_TEST_CASE(special_tokens_and_bytes) {
  Model model;
  add_bytes(model);
  for (const std::string& piece : {kMark, std::string("a"), kMark + "a"}) model.add(piece, -1);
  model.trainer += number(35, 1) + number(41, 1) + number(42, 2);
  const Tokenizer tokenizer = read(model);
  BOOST_TEST(tokenizer.bos.value() == 1);
  BOOST_TEST(tokenizer.eos.value() == 2);
  BOOST_TEST(tokenizer.encode("a\u00e9") == (std::vector<int>{3 + 256 + 2, 3 + 0xC3, 3 + 0xA9}),
             boost::test_tools::per_element());
  BOOST_TEST(tokenizer.decode(tokenizer.encode("a\u00e9 a")) == "a\u00e9 a");

  // In a folder: BOS comes first unless the config says otherwise; what is written for others has the same tokens.
  const Folder folder("sentencepiece"), copy("copy");
  folder.write("tokenizer.model", model.bytes());
  const std::vector<int> ids = seppo::read_tokenizer(folder.path).encode("a a");
  BOOST_TEST(ids == (std::vector<int>{1, 261, 261}), boost::test_tools::per_element());
  seppo::write_tokenizer(copy.path, folder.path, 64);
  BOOST_TEST(std::filesystem::exists(copy.path / "tokenizer.json"));
  BOOST_TEST(seppo::read_tokenizer(copy.path).encode("a a") == ids, boost::test_tools::per_element());
  folder.write("tokenizer_config.json", R"({"add_bos_token": false})");
  BOOST_TEST(seppo::read_tokenizer(folder.path).encode("a a") == (std::vector<int>{261, 261}),
             boost::test_tools::per_element());

  model.trainer = number(3, 2) + number(41, ~std::uint64_t{0});  // -1
  BOOST_TEST(!read(model).bos.has_value());
}

BOOST_AUTO_TEST_CASE(what_is_no_model_is_refused) {
  std::mt19937 random(3);
  const Model fine = random_model(random);
  BOOST_CHECK_THROW(seppo::sentencepiece_model_json("no/tokenizer.model"), seppo::FileError);
  refused("", "is no model of SentencePiece: it has no tokens");
  refused(fine.bytes() + "\x0a\x7f", "is no model of SentencePiece, or is cut off");
  refused(fine.bytes() + "\x0b", "is no model of SentencePiece: a field of type 3");
  refused(std::string(12, '\xff'), "is no model of SentencePiece: a number of more than ten bytes");
  refused(text(1, text(1, "a")), "has no token for what is unknown");
  const auto with = [&](const auto& change) {
    Model model = fine;
    change(model);
    return model.bytes();
  };
  refused(with([](Model& m) { m.add("a", 0); }), "'a' is there twice");
  refused(with([](Model& m) { m.add("", 0); }), "is empty, or not UTF-8");
  refused(with([](Model& m) { m.add("\xff", 0); }), "is empty, or not UTF-8");
  refused(with([](Model& m) { m.add("z", std::numeric_limits<float>::infinity()); }), "is not finite");
  refused(with([](Model& m) { m.add("z", 0, static_cast<Type>(7)); }), "is of the unknown type 7");
  refused(with([](Model& m) { m.trainer = number(3, 3); }), "model_type 3 is not supported");
  refused(with([](Model& m) { m.trainer += number(24, 1); }), "treat_whitespace_as_suffix is not supported");
  refused(with([](Model& m) { m.normalizer = number(5, 0); }), "escape_whitespaces: false is not supported");
  // Damaged anywhere, it is read or refused.
  const std::string bytes = fine.bytes();
  const Folder folder("sentencepiece");
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = bytes;
    damaged[random() % damaged.size()] = static_cast<char>(random());
    if (i % 3 == 0) damaged.resize(random() % damaged.size());
    folder.write("tokenizer.model", damaged);
    try {
      seppo::read_sentencepiece_model(folder.path / "tokenizer.model").encode("abc cba");
    } catch (const FormatError&) {
    }
  }
}
