// Counts of pairs are kept up to date merge by merge: only words that have the pair are read again.
#include "learn_bpe.h"

#include "alphabet.h"
#include "bpe.h"
#include "byte_level_bpe.h"
#include "tokenizer_json_writer.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/utf8.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <queue>
#include <span>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

using nlohmann::json;

namespace {

// How often a pair occurs, and the words that have it, or had it.
struct Pair {
  std::int64_t count = 0;
  std::vector<std::uint32_t> words = {};
};

// A pair that may be the most frequent one; its count may have changed since.
struct Candidate {
  std::int64_t count;
  std::uint64_t pair;  // merge_key()

  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

// The words as tokens, and the counts of their pairs.
class PairCounts {
 public:
  void add(std::string_view word, std::int64_t count, const std::array<int, kByteValues>& ids) {
    const auto number = static_cast<std::uint32_t>(words_.size());
    std::vector<int> tokens;
    for (const char byte : word) tokens.push_back(ids[static_cast<unsigned char>(byte)]);
    for (std::size_t i = 1; i < tokens.size(); ++i) change(merge_key(tokens[i - 1], tokens[i]), count, number);
    words_.push_back({std::move(tokens), count});
  }

  // The most frequent pair, if it occurs `least` times.
  std::optional<std::uint64_t> most_frequent(std::int64_t least) {
    update_candidates();
    while (!candidates_.empty()) {
      const Candidate best = candidates_.top();
      const std::int64_t count = pairs_.at(best.pair).count;
      if (best.count == count) return count >= least ? std::optional(best.pair) : std::nullopt;
      candidates_.pop();
      if (count > 0) candidates_.push({count, best.pair});
    }
    return {};
  }

  // The most frequent pair becomes a token, everywhere.
  void merge(std::uint64_t pair, int token) {
    candidates_.pop();
    const std::vector<std::uint32_t> words = std::move(pairs_.at(pair).words);
    for (const std::uint32_t number : words) merge_in(number, pair, token);
    pairs_.at(pair) = {};
  }

 private:
  struct Word {
    std::vector<int> tokens;
    std::int64_t count;
  };

  void change(std::uint64_t pair, std::int64_t by, std::uint32_t word) {
    Pair& changed = pairs_[pair];
    changed.count += by;
    if (by < 0) return;
    if (changed.words.empty() || changed.words.back() != word) changed.words.push_back(word);
    if (risen_.empty() || risen_.back() != pair) risen_.push_back(pair);
  }

  void merge_in(std::uint32_t number, std::uint64_t pair, int token) {
    Word& word = words_[number];
    std::vector<int>& tokens = word.tokens;
    std::size_t written = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const bool is_pair = i + 1 < tokens.size() && merge_key(tokens[i], tokens[i + 1]) == pair;
      if (!is_pair) {
        tokens[written++] = tokens[i];
        continue;
      }
      if (written > 0) {
        change(merge_key(tokens[written - 1], tokens[i]), -word.count, number);
        change(merge_key(tokens[written - 1], token), word.count, number);
      }
      ++i;
      if (i + 1 < tokens.size()) {
        change(merge_key(tokens[i], tokens[i + 1]), -word.count, number);
        change(merge_key(token, tokens[i + 1]), word.count, number);
      }
      tokens[written++] = token;
    }
    tokens.resize(written);
  }

  // Counts that fell are seen when their pair is the best one; those that rose must be told.
  void update_candidates() {
    std::ranges::sort(risen_);
    risen_.erase(std::unique(risen_.begin(), risen_.end()), risen_.end());
    for (const std::uint64_t pair : risen_) candidates_.push({pairs_.at(pair).count, pair});
    risen_.clear();
  }

  std::vector<Word> words_;
  std::unordered_map<std::uint64_t, Pair> pairs_;
  std::priority_queue<Candidate> candidates_;
  std::vector<std::uint64_t> risen_;  // pairs whose counts rose since the last merge
};

// The vocabulary and the merges of a tokenizer, in GPT-2's alphabet.
class Learned {
 public:
  explicit Learned(const std::string& special) {
    std::vector<std::string> alphabet = gpt2_alphabet();
    std::ranges::sort(alphabet);  // by code points
    add(special);
    for (const std::string& character : alphabet)
      if (character != special) add(character);
  }

  std::size_t size() const { return texts_.size(); }
  int id_of(const std::string& text) const { return vocabulary_.at(text).get<int>(); }

  // Adds the merge of a pair. Returns its token, which may be there already.
  int merge(std::uint64_t pair) {
    const std::string& left = texts_[pair >> 32];
    const std::string& right = texts_[pair & 0xFFFF'FFFF];
    merges_.push_back({left, right});
    const std::string both = left + right;
    if (!vocabulary_.contains(both)) add(both);
    return id_of(both);
  }

  json document() const {
    return whole_json({{"added_tokens", {added_token_json(0, texts_[0], /*is_special=*/true)}},
                       {"pre_tokenizer", byte_level_json(/*has_words=*/true)},
                       {"post_processor", byte_level_json(/*has_words=*/true)},
                       {"decoder", byte_level_json(/*has_words=*/true)},
                       {"model", bpe_json(vocabulary_, merges_)}});
  }

 private:
  void add(const std::string& text) {
    vocabulary_[text] = texts_.size();
    texts_.push_back(text);
  }

  std::vector<std::string> texts_;
  json vocabulary_ = json::object(), merges_ = json::array();
};

}  // namespace

BpeLearner::BpeLearner() { steps_.push_back(ByteLevel{.words = {Pattern(kGpt2Words, "BPE")}}); }

void BpeLearner::add(std::string_view text) {
  Matcher matcher(text.size());
  while (!text.empty()) {
    const std::size_t valid = utf8_length(text);
    Words words(text.substr(0, valid), TextPlace{}, /*begins_text=*/true);
    pre_tokenize(steps_, words, matcher);
    for (const std::string_view word : words.words) count(word);
    text.remove_prefix(std::min(valid + 1, text.size()));
  }
}

void BpeLearner::count(std::string_view word) {
  const auto found = counts_.find(word);
  if (found != counts_.end()) {
    ++found->second;
  } else {
    counts_.emplace(word, 1);
  }
}

json BpeLearner::learn(const BpeOptions& options) const {
  check<ArgumentError>(options.tokens > kByteValues, "BPE: ", options.tokens,
                       " tokens are not more than 256, of all bytes");
  check<ArgumentError>(options.least >= 1, "BPE: least ", options.least, " is below 1");
  Learned learned(options.special);
  std::array<int, kByteValues> ids{};
  for (std::size_t byte = 0; byte < kByteValues; ++byte) ids[byte] = learned.id_of(gpt2_alphabet()[byte]);
  PairCounts pairs;
  for (const auto& [word, count] : counts_) pairs.add(word, count, ids);
  while (learned.size() < static_cast<std::size_t>(options.tokens)) {
    const auto pair = pairs.most_frequent(options.least);
    if (!pair) break;
    pairs.merge(*pair, learned.merge(*pair));
  }
  return learned.document();
}

}  // namespace SEPPO_ABI
}  // namespace seppo
