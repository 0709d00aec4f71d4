// The tokens of a short word are searched for the best pair each time. Those of a long one form a linked list, and the
// pairs that can merge a heap.
#include "bpe.h"

#include "../../autograd/core/utf8.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <span>
#include <tuple>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

namespace {

constexpr std::size_t kShort = 48;  // tokens; beyond, the heap is faster
constexpr Bpe::Merge kNoMerge{~std::uint32_t{0}, Bpe::kNone};

// ---- merging -------------------------------------------------------------------------------------

Bpe::Merge merge_of(const Bpe& bpe, int left, int right) {
  const Bpe::Merge* const found = bpe.merges.find(merge_key(left, right));
  return found ? *found : kNoMerge;
}

// Returns how many tokens remain.
std::size_t merge_short(const Bpe& bpe, std::span<int> tokens) {
  std::array<Bpe::Merge, kShort> merges;  // merges[i] is that of tokens[i] and tokens[i + 1]
  std::size_t size = tokens.size();
  for (std::size_t i = 0; i + 1 < size; ++i) merges[i] = merge_of(bpe, tokens[i], tokens[i + 1]);
  while (size > 1) {
    std::size_t at = 0;
    for (std::size_t i = 1; i + 1 < size; ++i)
      if (merges[i].order < merges[at].order) at = i;
    if (merges[at].result == Bpe::kNone) break;
    tokens[at] = merges[at].result;
    --size;
    for (std::size_t i = at + 1; i < size; ++i) tokens[i] = tokens[i + 1];
    for (std::size_t i = at; i + 1 < size; ++i) merges[i] = merges[i + 1];
    if (at + 1 < size) merges[at] = merge_of(bpe, tokens[at], tokens[at + 1]);
    if (at > 0) merges[at - 1] = merge_of(bpe, tokens[at - 1], tokens[at]);
  }
  return size;
}

// A position that was merged into the one before is skipped by `next_`.
class Merging {
 public:
  Merging(const Bpe& bpe, std::span<int> tokens)
      : bpe_(bpe), tokens_(tokens), next_(tokens.size() + 1), previous_(tokens.size() + 1) {
    std::iota(next_.begin(), next_.end(), 1);
    std::iota(previous_.begin() + 1, previous_.end(), 0);
  }

  // Returns how many tokens remain.
  std::size_t run() {
    for (std::size_t at = 0; at < tokens_.size(); ++at) consider(at);
    while (!candidates_.empty()) {
      const Candidate best = candidates_.top();
      candidates_.pop();
      if (is_current(best)) apply(best);
    }
    std::size_t count = 0;
    for (std::size_t at = 0; at < tokens_.size(); at = next_[at]) tokens_[count++] = tokens_[at];
    return count;
  }

 private:
  // Two adjacent tokens that can merge. Compared by these fields in turn: the leftmost of equal pairs comes first.
  struct Candidate {
    std::uint32_t order;
    std::size_t left, right, end;  // positions of both tokens, and of the one behind them
    int result;

    bool operator>(const Candidate& other) const {
      return std::tie(order, left, right, end, result) >
             std::tie(other.order, other.left, other.right, other.end, other.result);
    }
  };

  void consider(std::size_t left) {
    const std::size_t right = next_[left];
    if (right >= tokens_.size()) return;
    const Bpe::Merge merge = merge_of(bpe_, tokens_[left], tokens_[right]);
    if (merge.result != Bpe::kNone) candidates_.push({merge.order, left, right, next_[right], merge.result});
  }

  // Has neither of the two been merged since?
  bool is_current(const Candidate& c) const { return next_[c.left] == c.right && next_[c.right] == c.end; }

  void apply(const Candidate& c) {
    tokens_[c.left] = c.result;
    next_[c.left] = c.end;
    next_[c.right] = 0;  // no position is behind it any more
    previous_[c.end] = c.left;
    if (c.left > 0) consider(previous_[c.left]);
    consider(c.left);
  }

  const Bpe& bpe_;
  std::span<int> tokens_;
  std::vector<std::size_t> next_, previous_;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates_;
};

// ---- splitting -----------------------------------------------------------------------------------

// Collects the tokens of the characters of a word.
class Splitting {
 public:
  Splitting(const Bpe& bpe, std::vector<int>& tokens) : bpe_(bpe), tokens_(tokens) {}

  std::size_t run(std::string_view word) {
    const std::string_view whole = word;
    while (!word.empty()) {
      const std::size_t length = bpe_.is_of_bytes ? 1 : std::max<std::size_t>(1, character_length(word));
      const bool is_first = word.size() == whole.size();
      add(word.substr(0, length), is_first, length == word.size());
      word.remove_prefix(length);
    }
    flush();
    return left_out_;
  }

 private:
  void add(std::string_view character, bool is_first, bool is_last) {
    const bool is_changed = (!is_first && !bpe_.prefix.empty()) || (is_last && !bpe_.suffix.empty());
    if (is_changed) {
      changed_ = (is_first ? "" : bpe_.prefix) + std::string(character) + (is_last ? bpe_.suffix : "");
      character = changed_;
    }
    const auto found = bpe_.ids.find(character);
    if (found != bpe_.ids.end()) {
      flush();
      tokens_.push_back(found->second);
    } else if (!falls_back(character)) {
      add_unknown(character);
    }
  }

  bool falls_back(std::string_view character) {
    if (!bpe_.fallback) return false;
    const auto token_of = [&](char byte) { return (*bpe_.fallback)[static_cast<unsigned char>(byte)]; };
    if (std::ranges::any_of(character, [&](char byte) { return token_of(byte) == Bpe::kNone; })) return false;
    for (const char byte : character) tokens_.push_back(token_of(byte));
    return true;
  }

  void add_unknown(std::string_view character) {
    if (!bpe_.unknown) {
      left_out_ += character.size();
      return;
    }
    if (!bpe_.fuses_unknown) flush();
    has_unknown_ = true;
  }

  // An unknown token comes once no other can be fused with it. Bytes do not end it: as in Hugging Face's package.
  void flush() {
    if (has_unknown_) tokens_.push_back(*bpe_.unknown);
    has_unknown_ = false;
  }

  const Bpe& bpe_;
  std::vector<int>& tokens_;
  std::string changed_;
  bool has_unknown_ = false;
  std::size_t left_out_ = 0;
};

}  // namespace

std::size_t Bpe::encode(std::string_view word, std::vector<int>& tokens) const {
  if (takes_words) {
    const auto found = ids.find(word);
    if (found != ids.end()) {
      tokens.push_back(found->second);
      return 0;
    }
  }
  const std::size_t begin = tokens.size();
  const std::size_t left_out = Splitting(*this, tokens).run(word);
  const std::span<int> parts = std::span(tokens).subspan(begin);
  const std::size_t size = parts.size() <= kShort ? merge_short(*this, parts) : Merging(*this, parts).run();
  tokens.resize(begin + size);
  return left_out;
}

bool Bpe::add_merge(std::string_view left, std::string_view right, std::uint32_t order) {
  const auto a = ids.find(left);
  const auto b = ids.find(right);
  if (a == ids.end() || b == ids.end()) return false;
  const std::string_view appended = right.substr(std::min(prefix.size(), right.size()));
  const auto both = ids.find(std::string(left).append(appended));
  if (both == ids.end()) return false;
  const Merge merge{order, both->second};
  *merges.add(merge_key(a->second, b->second), merge).first = merge;
  return true;
}

void Bpe::order_by_scores(std::span<const double> scores) {
  std::vector<double> sorted(scores.begin(), scores.end());
  std::ranges::sort(sorted, std::greater<>());
  FlatMap<Merge> ordered;
  merges.each([&](std::uint64_t pair, const Merge& merge) {
    const double score = scores[static_cast<std::size_t>(merge.result)];
    const auto place = std::ranges::lower_bound(sorted, score, std::greater<>());
    ordered.add(pair, {static_cast<std::uint32_t>(place - sorted.begin()), merge.result});
  });
  merges = std::move(ordered);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
