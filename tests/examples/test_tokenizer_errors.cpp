// Damaged and malicious tokenizer files are refused in one line that names the file, the place and the rule.
#define BOOST_TEST_MODULE tokenizer_errors
#include "llm/tokenizer.h"
#include "support/tokenizer_files.h"

#include <seppo/autograd/core/check.h>

#include <boost/test/unit_test.hpp>

#include <limits>
#include <set>

using namespace llm;
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
  const Bpe bpe = random_bpe(random, 20);
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
  refused(files(vocab, first + "\n\n"), "merges.txt: merge 2, ''");
  refused(files(vocab, first + "\r\n"), "GPT-2's alphabet");
  refused(files(vocab, "#version: 0.2\n" + first + "\n" + first + "\n"), "merges.txt: merge 2, ");
  refused(files(vocab, "a b c\n"), "merges.txt");
  refused(files(vocab, "\xff a\n"), "'\\xff' in a token is not GPT-2's alphabet");
  refused(files("[]", ""), "the vocabulary is no object");
  refused(files("{\"a\": 0, \"a\": 1}", ""), "vocab.json:1:12: not valid JSON");
  refused(files("{}", ""), "is no token");
}

// An invalid token is named, wherever it appears.
BOOST_AUTO_TEST_CASE(tokens_that_are_none_are_named) {
  const Tokenizer tokenizer{.pieces = {"a", "b"}, .ids = {{"a", 0}, {"b", 1}}};
  const std::vector<int> high{1, 0, 2}, low{1, -5, 0}, fine{1, 0};
  BOOST_CHECK_EXCEPTION(tokenizer.decode(high), seppo::IndexError,
                        [](const auto& e) { return std::string(e.what()) == "decode: token 2 of 2"; });
  BOOST_CHECK_EXCEPTION(tokenizer.decode(low), seppo::IndexError,
                        [](const auto& e) { return std::string(e.what()) == "decode: token -5 of 2"; });
  BOOST_CHECK_EQUAL(tokenizer.decode(fine), "ba");
}

// An untrusted pattern may take exponential time; matching stops with an error instead.
BOOST_AUTO_TEST_CASE(a_pattern_that_takes_too_long_is_an_error) {
  Tokenizer tokenizer{.pieces = {"a"}, .ids = {{"a", 0}}};
  tokenizer.add_pattern("(?:a+)+[bc]", "x");
  refused([&] { tokenizer.encode(std::string(60, 'a')); }, "a pattern of the tokenizer fails with PCRE2's error -47");
  Tokenizer deep{.pieces = {"a"}, .ids = {{"a", 0}}};
  deep.add_pattern("(?:a|aa)+[bc]", "x");
  refused([&] { deep.encode(std::string(3'000'000, 'a')); }, "a pattern of the tokenizer fails with PCRE2's error");
}
