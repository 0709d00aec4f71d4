// BPE that is learned: the merges of a loop that counts every pair anew, and a tokenizer that encodes with them.
// needs: libraries: seppo::text
#include <seppo/autograd/core/check.h>
#include <seppo/nn/text/learn_bpe.h>
#include <seppo/nn/text/tokenizer_json.h>

#include "support/errors.h"
#include "support/program.h"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

using nlohmann::json;
using seppo::ArgumentError;
using seppo::BpeLearner;
using seppo::Tokenizer;
using test::check_error;
using test::Folder;

namespace {

using Merges = std::vector<std::pair<std::string, std::string>>;

// Words of few letters, so that pairs repeat, overlap and are equally frequent.
std::vector<std::string> random_words(std::mt19937& random, std::size_t count) {
  std::vector<std::string> words(count);
  for (std::string& word : words)
    for (std::size_t length = 1 + random() % 9; word.size() < length;) word += static_cast<char>('a' + random() % 3);
  return words;
}

// Counts all pairs of all words before each merge. Tokens are ordered by when they were made, letters by themselves.
Merges naive_merges(const std::vector<std::string>& words, std::size_t count, std::int64_t least) {
  std::vector<std::vector<std::string>> split;
  for (const std::string& word : words) {
    split.emplace_back();
    for (const char c : word) split.back().emplace_back(1, c);
  }
  std::map<std::string, std::size_t> rank;
  for (char c = 'a'; c <= 'z'; ++c) rank[std::string(1, c)] = rank.size();
  Merges merges;
  while (merges.size() < count) {
    std::map<std::pair<std::size_t, std::size_t>, std::pair<std::int64_t, std::pair<std::string, std::string>>> pairs;
    for (const auto& tokens : split)
      for (std::size_t i = 1; i < tokens.size(); ++i) {
        auto& pair = pairs[{rank.at(tokens[i - 1]), rank.at(tokens[i])}];
        ++pair.first;
        pair.second = {tokens[i - 1], tokens[i]};
      }
    const auto best = std::ranges::max_element(pairs, {}, [](const auto& pair) { return pair.second.first; });
    if (best == pairs.end() || best->second.first < least) break;
    const auto [left, right] = best->second.second;
    merges.emplace_back(left, right);
    rank.emplace(left + right, rank.size());
    for (auto& tokens : split) {
      std::vector<std::string> merged;
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        const bool is_pair = i + 1 < tokens.size() && tokens[i] == left && tokens[i + 1] == right;
        merged.push_back(is_pair ? left + right : tokens[i]);
        i += is_pair ? 1 : 0;
      }
      tokens = merged;
    }
  }
  return merges;
}

Merges merges_of(const json& document) { return document["model"]["merges"].get<Merges>(); }

}  // namespace

BOOST_AUTO_TEST_CASE(the_merges_of_a_naive_loop) {
  std::mt19937 random(1);
  for (int round = 0; round < 40; ++round) {
    const std::vector<std::string> words = random_words(random, 1 + random() % 60);
    BpeLearner learner;
    for (const std::string& word : words) learner.add(word);
    const std::int64_t least = 1 + static_cast<std::int64_t>(random() % 3);
    const json document = learner.learn({.tokens = 257 + 30, .least = least});
    const Merges merges = merges_of(document);
    // A pair whose text is a token already is a merge, but no new token.
    const Merges expected = naive_merges(words, merges.size(), least);
    BOOST_TEST((merges == expected));
    const bool is_full = document["model"]["vocab"].size() == 257 + 30;
    BOOST_TEST((is_full || naive_merges(words, merges.size() + 1, least).size() == merges.size()));
  }
}

BOOST_AUTO_TEST_CASE(its_tokenizer_encodes_with_them) {
  BpeLearner learner;
  const std::string text = "the cat sat on the mat, the cat's hat: caf\u00e9, caf\u00e9!";
  for (int i = 0; i < 3; ++i) learner.add(text);
  const Folder folder("bpe");
  folder.write("tokenizer.json", learner.learn({.tokens = 300}).dump());
  const Tokenizer tokenizer = seppo::read_tokenizer_json(folder.path / "tokenizer.json");
  const std::vector<int> tokens = tokenizer.encode(text);
  BOOST_TEST(tokenizer.size() <= 300);
  BOOST_TEST(2 * tokens.size() < text.size());
  BOOST_TEST(tokenizer.decode(tokens) == text);
  BOOST_TEST(tokenizer.encode("<|endoftext|>", seppo::SpecialText::tokens) == std::vector<int>{0},
             boost::test_tools::per_element());
  folder.write("tokenizer.json", learner.learn({.tokens = 300, .special = "<end>"}).dump());
  const Tokenizer other = seppo::read_tokenizer_json(folder.path / "tokenizer.json");
  BOOST_TEST(other.encode("<end>", seppo::SpecialText::tokens) == std::vector<int>{0},
             boost::test_tools::per_element());
  BOOST_TEST(other.encode("<|endoftext|>", seppo::SpecialText::tokens).size() > 1);
  folder.write("tokenizer.json", learner.learn({.tokens = 257, .special = "!"}).dump());  // which is a byte too
  const Tokenizer letter = seppo::read_tokenizer_json(folder.path / "tokenizer.json");
  BOOST_TEST(letter.size() == 257);
  BOOST_TEST(letter.encode("a!").back() == 0);
  const std::string bytes = "\xff\x00 any \xc3(";
  BOOST_TEST(tokenizer.decode(tokenizer.encode(bytes)) == bytes);
}

BOOST_AUTO_TEST_CASE(what_is_learned_depends_on_counts_alone) {
  std::mt19937 random(2);
  std::vector<std::string> texts;
  for (int i = 0; i < 30; ++i)
    for (const std::string& word : random_words(random, 5)) texts.push_back(word + " ");
  BpeLearner one, other, joined;
  for (const std::string& text : texts) one.add(text);
  std::ranges::shuffle(texts, random);
  for (const std::string& text : texts) other.add(text);
  BOOST_TEST((one.learn({.tokens = 290}) == other.learn({.tokens = 290})));
  BOOST_TEST((one.learn({.tokens = 270}) == other.learn({.tokens = 270})));  // learning changes nothing
  // Words do not join across bytes that are not UTF-8.
  joined.add(
      "ab\xff"
      "ab\xff"
      "b\xff");
  BOOST_TEST((merges_of(joined.learn({.least = 1})) == Merges{{"a", "b"}}));
}

BOOST_AUTO_TEST_CASE(sizes_that_cannot_be) {
  const BpeLearner learner;
  check_error<ArgumentError>([&] { learner.learn({.tokens = 256}); }, {"256 tokens"});
  check_error<ArgumentError>([&] { learner.learn({.least = 0}); }, {"least 0"});
  BOOST_TEST(learner.learn({.tokens = 257})["model"]["vocab"].size() == 257u);
  BOOST_TEST(merges_of(learner.learn()).empty());
}
