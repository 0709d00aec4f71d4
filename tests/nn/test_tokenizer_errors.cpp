// Damaged and malicious tokenizer files are refused in one line that names the file, the place and the rule.
// needs: libraries: seppo::text
#include "support/tokenizer_files.h"

#include <seppo/autograd/core/check.h>
#include <seppo/nn/text/byte_level_bpe.h>
#include <seppo/nn/text/sentencepiece.h>
#include <seppo/nn/text/tokenizer.h>
#include <seppo/nn/text/tokenizer_json.h>

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <ctime>
#include <limits>
#include <set>

using namespace seppo;
using namespace test;

BOOST_AUTO_TEST_CASE(damaged_sentencepiece_files_are_refused) {
  const Folder folder("tokenizer");
  const std::vector<Piece> pieces{{"a", 0}, {"b", 0}, {"ab", -1}};
  const std::string good = file_of(pieces);
  const auto reads = [&](const std::string& content) {
    return [&folder, content] {
      folder.write("t.bin", content);
      read_sentencepiece(folder.path / "t.bin");
    };
  };
  BOOST_CHECK_NO_THROW(reads(good)());
  std::set<std::size_t> ends{good.size()};  // token boundaries, where a file is valid with a shorter vocabulary
  for (std::size_t left = 1; left <= pieces.size(); ++left) {
    std::string tail;
    for (std::size_t i = pieces.size() - left; i < pieces.size(); ++i) tail += entry(pieces[i]);
    ends.insert(good.size() - tail.size());
  }
  for (std::size_t size = 0; size < good.size(); size += 1 + size / 40)
    if (!ends.contains(size)) BOOST_CHECK_THROW(reads(good.substr(0, size))(), FormatError);
  refused(reads(""), "t.bin: byte 0: the end, but 4 bytes are to come");
  refused(reads(good + "abc"), "the end, but 4 bytes are to come");
  refused(reads(file_of({{"a", 0}, {"a", 0}})), ": token 260: 'a' is there twice");
  refused(reads(file_of({{"", 0}})), ": token 259: has the score 0 and 0 bytes, of at most 64");
  refused(reads(file_of({{"a", std::numeric_limits<float>::quiet_NaN()}})), ": token 259: has the score");
  refused(reads(file_of({{std::string(65, 'a'), 0}})), " 65 bytes, of at most 64");
  refused(reads(file_of({{std::string(2000, 'a'), 0}}, 1 << 30)), " 2000 bytes, of at most 1024");
  refused(reads(file_of({}) + bytes_of(0.0F) + bytes_of(-1)), " -1 bytes, of at most 64");
  refused(reads(file_of({}) + bytes_of(0.0F) + bytes_of(60) + "abc"), "the end, but 60 bytes are to come");
  std::string swapped = good;
  swapped[swapped.find("<0x41>") + 4] = '2';
  refused(reads(swapped), ": token 68: is not the byte <0x41>");
  BOOST_CHECK_THROW(read_sentencepiece(folder.path / "none.bin"), FileError);
}

BOOST_AUTO_TEST_CASE(damaged_byte_level_files_are_refused) {
  Random random;
  const BpeFiles bpe = random_bpe(random, 20);
  const Folder folder("tokenizer");
  const auto files = [&](const std::string& vocab, const std::string& merges) {
    return [&, vocab, merges] {
      folder.write("vocab.json", vocab);
      folder.write("merges.txt", merges);
      read_byte_level_bpe(folder.path / "vocab.json", folder.path / "merges.txt");
    };
  };
  const std::string vocab = bpe.vocabulary().dump(), first = bpe.lines()[0];
  BOOST_CHECK_NO_THROW(files(vocab, "")());
  BOOST_CHECK_NO_THROW(files(vocab, "#version: 0.2")());
  BOOST_CHECK_NO_THROW(files(vocab, first)());
  BOOST_CHECK_NO_THROW(files(vocab, first + "\n\n")());
  BOOST_CHECK_NO_THROW(files(vocab, "#version: 0.2\r\n" + first + "\r\n\r\n")());
  refused(files(vocab, first + "\n\n" + bpe.lines()[1]), "merges.txt: merge 2, ''");
  refused(files(vocab, first + "\r" + "\n\r\r\n"), "merge 2, '\\x0d'");
  BOOST_CHECK_NO_THROW(files(vocab, "#version: 0.2\n" + first + "\n" + first + "\n")());
  refused(files(vocab, "a b c\n"), "merges.txt");
  refused(files(vocab, "\xff a\n"), "'\\xff' in a merge is not GPT-2's alphabet");
  refused(files("[]", ""), "the vocabulary is no object");
  refused(files("{\"a\": 0, \"a\": 1}", ""), "vocab.json:1:12: not valid JSON");
  refused(files("{}", ""), "the vocabulary has no tokens");
  refused(files("{\"a\": 0}", ""), "which stands for a byte, is no token");
}

// An invalid token is named, wherever it appears.
BOOST_AUTO_TEST_CASE(tokens_that_are_none_are_named) {
  const Tokenizer tokenizer{.pieces = {"a", "b"}};
  const std::vector<int> high{1, 0, 2}, low{1, -5, 0}, fine{1, 0};
  BOOST_CHECK_EXCEPTION(tokenizer.decode(high), seppo::IndexError,
                        [](const auto& e) { return std::string(e.what()) == "decode: token 2 of 2"; });
  BOOST_CHECK_EXCEPTION(tokenizer.decode(low), seppo::IndexError,
                        [](const auto& e) { return std::string(e.what()) == "decode: token -5 of 2"; });
  BOOST_CHECK_EQUAL(tokenizer.decode(fine), "ba");
}

namespace {

// A tokenizer with one token.
Tokenizer with_pattern(const char* pattern) {
  Tokenizer made{.model = Bpe{.ids = {{"a", 0}}}, .pieces = {"a"}};
  made.add_pattern(pattern, "x");
  return made;
}

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::clock();
  work();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

}  // namespace

// An untrusted pattern may take exponential time; matching stops with an error instead.
BOOST_AUTO_TEST_CASE(a_pattern_that_takes_too_long_is_an_error) {
  const Tokenizer exponential = with_pattern("(?:a|aa)+[bc]"), &deep = exponential;
  refused([&] { exponential.encode(std::string(60, 'a')); }, "takes too many steps for this text, at 'aaaa");
  refused([&] { deep.encode(std::string(3'000'000, 'a')); }, "a pattern of the tokenizer ");
}

// The steps of a text are limited, not those at one place: each place of this text takes many, but none too many.
BOOST_AUTO_TEST_CASE(a_pattern_that_is_slow_everywhere_is_an_error) {
  const Tokenizer slow = with_pattern(R"((?:[a-z]|[a-z]|[a-z])(?:.|.){17}[\x{4e00}])");
  // The last byte of the text is the last one of a match, which might be looked for first.
  refused([&] { slow.encode(std::string(400, 'q') + "\U0001F600"); }, "takes too many steps for this text");
  // While patterns of real tokenizers take time in proportion to the text, also where words are long.
  const Tokenizer gpt2 = with_pattern(kGpt2Words);
  for (const char* part : {"a", " ", "a ", "1", "\n", "'", "\xC3\xA9", "  x"}) {
    std::string text;
    while (text.size() < 200'000) text += part;
    BOOST_CHECK_NO_THROW(gpt2.encode(text));
  }
}

// \K in a look-behind moves the begin of a match to before the last one's end.
BOOST_AUTO_TEST_CASE(a_match_that_begins_too_early_is_an_error) {
  const Tokenizer early = with_pattern(R"((?<=\Ka))"), usual = with_pattern(R"(b\Ka)");
  refused([&] { early.encode("xabab"); }, "has a match that begins too early, before 'bab'");
  BOOST_CHECK_EQUAL(usual.encode("xaba").size(), 2u);
  const nlohmann::json step{{"type", "Replace"}, {"pattern", {{"Regex", R"((?<=\Ka))"}}}, {"content", ""}};
  const nlohmann::json model{{"type", "WordLevel"}, {"vocab", {{"a", 0U}}}};
  const Tokenizer replacing = read_tokenizer_json({{"normalizer", step}, {"model", model}}, "x");
  refused([&] { replacing.encode("xabab"); }, "has a match that begins too early, before 'bab'");
}

BOOST_AUTO_TEST_CASE(the_number_of_patterns_is_limited) {
  Tokenizer tokenizer = with_pattern("a");
  for (int i = 1; i < 64; ++i) tokenizer.add_pattern("a", "x");
  BOOST_TEST(tokenizer.encode("aa") == (std::vector<int>{0, 0}), boost::test_tools::per_element());
  refused([&] { tokenizer.add_pattern("a", "x"); }, "x: there are more than 64 patterns");
}

// Time in proportion to the bytes: once, each added token was looked for among all of them, and a token of
// tokenizer.bin was cut at each of its bytes.
BOOST_AUTO_TEST_CASE(many_and_long_tokens_take_no_longer_than_others) {
  const Folder folder("tokenizer");
  Random random;
  const BpeFiles bpe = random_bpe(random, 20);
  nlohmann::json plain = bpe.document(), added = plain;
  const std::size_t first = bpe.tokens.size() + 1;
  for (std::size_t i = first; i < 40'000; ++i) {
    plain["model"]["vocab"]["<" + std::to_string(i) + ">"] = i;
    added["added_tokens"].push_back({{"id", i}, {"content", "<" + std::to_string(i) + ">"}, {"special", true}});
  }
  folder.write("plain.json", plain.dump());
  folder.write("added.json", added.dump());
  const double usual = seconds_of([&] { read_tokenizer_json(folder.path / "plain.json"); });
  BOOST_CHECK_LT(seconds_of([&] { read_tokenizer_json(folder.path / "added.json"); }), 0.05 + 6 * usual);

  std::vector<Piece> few, many;
  for (int i = 0; i < 2'000; ++i) few.push_back({std::to_string(i) + std::string(1000, 'x'), 0});
  for (int i = 0; i < 200'000; ++i) many.push_back({std::to_string(1'000'000 + i) + "xyz", 0});
  folder.write("few.bin", file_of(few, 1024));
  folder.write("many.bin", file_of(many, 1024));
  const double slow = seconds_of([&] { read_sentencepiece(folder.path / "many.bin"); });
  BOOST_CHECK_LT(seconds_of([&] { read_sentencepiece(folder.path / "few.bin"); }), 0.05 + slow);
}
