// Tokenizers read the files written here, and encode texts as a naive loop over strings does.
// needs: libraries: seppo::text
#include "support/tokenizer_files.h"

#include <seppo/autograd/core/check.h>
#include <seppo/nn/text/bpe.h>
#include <seppo/nn/text/byte_level_bpe.h>
#include <seppo/nn/text/normalizers.h>
#include <seppo/nn/text/pre_tokenizers.h>
#include <seppo/nn/text/sentencepiece.h>
#include <seppo/nn/text/tokenizer.h>

#include <boost/test/unit_test.hpp>

#include <array>
#include <cctype>
#include <map>
#include <set>

using namespace seppo;
using namespace test;

namespace {

// Each text is encoded as the naive loop encodes it, and decodes to itself.
void check_sentencepiece(const std::vector<Piece>& pieces, Random& random, int texts) {
  const Folder folder("tokenizer");
  folder.write("t.bin", file_of(pieces));
  const Tokenizer tokenizer = read_sentencepiece(folder.path / "t.bin");
  std::map<std::string, int> ids;
  for (const Piece& piece : pieces) ids.emplace(piece.text, 259 + static_cast<int>(ids.size()));
  const Order order = [&](const std::string& left, const std::string& right) -> std::optional<double> {
    const auto found = ids.find(left + right);
    if (!ids.contains(left) || !ids.contains(right) || found == ids.end()) return {};
    return -static_cast<double>(pieces[static_cast<std::size_t>(found->second - 259)].score);
  };
  for (int n = 0; n < texts; ++n) {
    const std::string text = random_text(random, 40);
    std::vector<int> expected{1};
    if (!text.empty())
      for (const std::string& part : merged(characters_of(" " + text), order)) {
        if (ids.contains(part))
          expected.push_back(ids[part]);
        else
          for (const char c : part) expected.push_back(3 + static_cast<unsigned char>(c));
      }
    const std::vector<int> encoded = tokenizer.encode(text);
    BOOST_REQUIRE(encoded == expected);
    BOOST_REQUIRE(tokenizer.decode(encoded) == text);
    BOOST_REQUIRE(tokenizer.decode(std::vector<int>(encoded.begin() + 1, encoded.end())) == text);  // without BOS
    std::string streamed;
    for (std::size_t i = 0; i < encoded.size(); ++i) streamed += tokenizer.decode(std::span(encoded).first(i + 1), i);
    BOOST_REQUIRE(streamed == text);
  }
}

// The words into which GPT-2's pattern splits an ASCII text.
Strings words_of(const std::string& text) {
  const auto kind = [&](std::size_t i) {
    const auto c = static_cast<unsigned char>(text[i]);
    return std::isspace(c) ? 's' : std::isalpha(c) ? 'a' : std::isdigit(c) ? 'd' : 'o';
  };
  Strings words;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = 0;
    for (const char* suffix : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
      if (end == 0 && text.compare(at, std::strlen(suffix), suffix) == 0) end = at + std::strlen(suffix);
    const std::size_t first = text[at] == ' ' && at + 1 < text.size() && kind(at + 1) != 's' ? at + 1 : at;
    if (end == 0) {
      for (end = first + 1; end < text.size() && kind(end) == kind(first);) ++end;
      if (kind(first) == 's' && end < text.size() && end > at + 1) --end;  // the last space belongs to the next word
    }
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

}  // namespace

BOOST_AUTO_TEST_CASE(sentencepiece_merges_as_the_naive_loop) {
  Random random;
  const Strings whole{" ", "a", "b", "é", "日", "😀", "!", "s", "'"};
  for (int round = 0; round < 30; ++round) {
    const bool has_inner_blanks = round % 2 == 1;
    std::vector<Piece> pieces;
    std::set<std::string> known;
    for (const std::string& c : whole)
      if (random.below(8) > 0 && known.insert(c).second) pieces.push_back({c, -100});
    for (int n = 0; n < 60; ++n) {
      const std::string joined =
          random.one_of({known.begin(), known.end()}) + random.one_of({known.begin(), known.end()});
      const bool is_inner =
          joined.find(' ', std::min(joined.find_first_not_of(' '), joined.size())) != std::string::npos;
      if ((is_inner && !has_inner_blanks) || joined.size() > 64 || !known.insert(joined).second) continue;
      pieces.push_back({joined, -static_cast<float>(random.below(20))});  // with ties
    }
    check_sentencepiece(pieces, random, 60);
  }
}

BOOST_AUTO_TEST_CASE(sentencepiece_without_pieces_is_bytes) {
  Random random;
  check_sentencepiece({}, random, 50);
}

BOOST_AUTO_TEST_CASE(byte_level_merges_as_the_naive_loop) {
  Random random;
  const Strings ascii{"a", "b", "ab", "sea", " ", "  ", "\n", "\t", "'s", "'ll", "'", "12", "!", "?!", "abe"};
  for (int round = 0; round < 10; ++round) {
    const BpeFiles bpe = random_bpe(random, 40);
    const Folder folder("tokenizer");
    bpe.write(folder);
    const Tokenizer one = read_byte_level_bpe(folder.path / "vocab.json", folder.path / "merges.txt");
    for (int n = 0; n < 100; ++n) {
      const std::string plain = random_text(random, 30, ascii), any = random_text(random, 30);
      const std::vector<int> tokens = one.encode(plain);
      BOOST_REQUIRE(tokens == bpe.encode(words_of(plain)));
      BOOST_REQUIRE(one.decode(tokens) == plain && one.decode(one.encode(any)) == any);
    }
  }
}

// A word of a megabyte, which would take a quadratic algorithm hours.
BOOST_AUTO_TEST_CASE(long_words_take_no_long_time) {
  Random random;
  BpeFiles bpe = random_bpe(random, 60);
  const Folder folder("tokenizer");
  const Tokenizer bytes = byte_level_bpe(bpe.vocabulary(), bpe.lines(), {}, "x");  // the whole text is one word
  std::vector<Piece> pieces;
  for (const char* text : {"a", "b", "e", "aa", "ab", "aab", "aaaa", "be", "aabe", "aaaaaaaa"})
    pieces.push_back({text, -static_cast<float>(pieces.size())});
  folder.write("t.bin", file_of(pieces));
  std::string text;
  while (text.size() < 1'000'000) text += random.one_of({"a", "a", "a", "b", "e"});
  for (const Tokenizer& tokenizer : {bytes, read_sentencepiece(folder.path / "t.bin")}) {
    BOOST_CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
    BOOST_CHECK(tokenizer.decode(tokenizer.encode(std::string(1'000'000, 'a'))) == std::string(1'000'000, 'a'));
    BOOST_CHECK(tokenizer.decode(tokenizer.encode(std::string(1'000'000, ' '))) == std::string(1'000'000, ' '));
  }
}

// A character without a token waits for others to join; bytes in between, as Hugging Face's package has it, do not end
// the wait, so they come first.
BOOST_AUTO_TEST_CASE(unknown_characters_among_bytes) {
  constexpr int kA = 0, kFirst = 1, kSecond = 2, kUnknown = 3;
  Bpe bpe;
  bpe.ids.emplace("a", kA);
  bpe.unknown = kUnknown;
  bpe.fallback.emplace().fill(Bpe::kNone);
  (*bpe.fallback)[0xC3] = kFirst;  // those of é; 日 has none
  (*bpe.fallback)[0xA9] = kSecond;
  const std::map<std::string, std::array<std::vector<int>, 2>> expected{
      {"日a", {{{kUnknown, kA}, {kUnknown, kA}}}},
      {"日日a", {{{kUnknown, kUnknown, kA}, {kUnknown, kA}}}},
      {"é日a", {{{kFirst, kSecond, kUnknown, kA}, {kFirst, kSecond, kUnknown, kA}}}},
      {"日éa", {{{kFirst, kSecond, kUnknown, kA}, {kFirst, kSecond, kUnknown, kA}}}},
      {"日é日", {{{kFirst, kSecond, kUnknown, kUnknown}, {kFirst, kSecond, kUnknown}}}}};
  for (const auto& [word, tokens] : expected)
    for (const bool fuses : {false, true}) {
      bpe.fuses_unknown = fuses;
      std::vector<int> found;
      BOOST_CHECK_EQUAL(bpe.encode(word, found), 0u);
      BOOST_CHECK_MESSAGE(found == tokens[fuses], word << " with fuses " << fuses);
    }
}

// Only a word that begins where the text does is its first, whatever was removed before it.
BOOST_AUTO_TEST_CASE(the_first_word_begins_with_the_text) {
  const auto words_of = [](const std::string& text, Matches matches) {
    const std::vector<PreTokenizer> steps{SplitText{.pattern = Pattern("[ .]", "test"), .matches = matches},
                                          Metaspace{.mark = "_", .prefix = Metaspace::Prefix::first}};
    Matcher matcher(text.size());
    seppo::Words all(text, {}, /*begins_text=*/true);
    pre_tokenize(steps, all, matcher);
    return std::vector<std::string>(all.words.begin(), all.words.end());
  };
  using Texts = std::vector<std::string>;
  BOOST_CHECK(words_of("ab cd", Matches::removed) == (Texts{"_ab", "cd"}));
  BOOST_CHECK(words_of(" ab cd", Matches::removed) == (Texts{"ab", "cd"}));
  BOOST_CHECK(words_of(".ab", Matches::removed) == (Texts{"ab"}));
  BOOST_CHECK(words_of(".ab", Matches::isolated) == (Texts{"_.", "ab"}));
  BOOST_CHECK(words_of(" ab", Matches::isolated) == (Texts{"_", "ab"}));
}

// Accents go with or without the capital letters.
BOOST_AUTO_TEST_CASE(each_switch_of_bert_cleans_by_itself) {
  const std::string text = "\x01É\t日é";
  for (unsigned chosen = 0; chosen < 16; ++chosen) {
    const bool cleans = chosen & 1, spaces = chosen & 2, strips = chosen & 4, is_lower = chosen & 8;
    std::string expected = strips ? "E" : "É";
    if (is_lower) expected = strips ? "e" : "é";
    expected = (cleans ? "" : "\x01") + expected + (cleans ? " " : "\t");
    expected += std::string(spaces ? " 日 " : "日") + (strips ? "e" : "é");
    const std::vector<Normalizer> normalizers{BertCleaning{cleans, spaces, strips, is_lower}};
    Matcher matcher(text.size());
    BOOST_CHECK_EQUAL(normalized(normalizers, text, {}, matcher), expected);
  }
}
