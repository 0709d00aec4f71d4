// Byte-pair encoding: the tokens of a word form a linked list, the pairs that can merge a heap.
#include "tokenizer.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/utf8.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <tuple>

namespace seppo {
inline namespace SEPPO_ABI {

namespace {

// The tokens of one word while they are merged. A position that was merged into the one before is skipped by `next_`.
class Merging {
 public:
  Merging(const Tokenizer& tokenizer, std::vector<int>& tokens)
      : tokenizer_(tokenizer), tokens_(tokens), next_(tokens.size() + 1), previous_(tokens.size() + 1) {
    std::iota(next_.begin(), next_.end(), 1);
    std::iota(previous_.begin() + 1, previous_.end(), 0);
  }

  void run() {
    for (std::size_t at = 0; at < tokens_.size(); ++at) consider(at);
    while (!candidates_.empty()) {
      const Candidate best = candidates_.top();
      candidates_.pop();
      if (is_current(best)) apply(best);
    }
    drop_merged();
  }

 private:
  // Two adjacent tokens that can merge. Compared by these fields in turn: the leftmost of equal pairs comes first.
  struct Candidate {
    double order;
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
    const auto found = tokenizer_.merges.find(merge_key(tokens_[left], tokens_[right]));
    if (found == tokenizer_.merges.end()) return;
    candidates_.push({found->second.order, left, right, next_[right], found->second.result});
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

  void drop_merged() {
    const std::size_t size = tokens_.size();
    std::size_t count = 0;
    for (std::size_t at = 0; at < size; at = next_[at]) tokens_[count++] = tokens_[at];
    tokens_.resize(count);
  }

  const Tokenizer& tokenizer_;
  std::vector<int>& tokens_;
  std::vector<std::size_t> next_, previous_;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates_;
};

// The bytes of the first piece into which a word is split.
std::size_t first_piece(const Tokenizer& t, std::string_view word) {
  if (!t.bytes) return 1;
  return std::max<std::size_t>(1, character_length(word));
}

// Appends the token of the piece. An unknown one is appended byte by byte, or left out if bytes are no tokens.
void append_piece(const Tokenizer& t, std::string_view piece, std::vector<int>& tokens) {
  const auto found = t.ids.find(std::string(piece));
  if (found != t.ids.end()) {
    tokens.push_back(found->second);
  } else if (t.bytes) {
    for (const char byte : piece) tokens.push_back(*t.bytes + static_cast<unsigned char>(byte));
  }
}

void encode_word(const Tokenizer& t, std::string_view word, std::vector<int>& tokens) {
  std::vector<int> parts;
  if (t.takes_words && t.ids.contains(std::string(word))) {
    append_piece(t, word, parts);
    word = {};
  }
  while (!word.empty()) {
    const std::size_t length = first_piece(t, word);
    append_piece(t, word.substr(0, length), parts);
    word.remove_prefix(length);
  }
  Merging(t, parts).run();
  tokens.insert(tokens.end(), parts.begin(), parts.end());
}

// The words of a text that is valid UTF-8.
std::vector<std::string_view> words_of(const Tokenizer& t, std::string_view text, Matcher& matcher) {
  std::vector<std::string_view> words{text};
  for (const Tokenizer::Step& step : t.steps) {
    std::vector<std::string_view> next;
    for (const std::string_view word : words) step.pattern.split(word, step.keep, matcher, next);
    words.swap(next);
  }
  return words;
}

// Of a text that is valid UTF-8 and has no added token.
void encode_plain(const Tokenizer& t, std::string_view text, Matcher& matcher, std::vector<int>& tokens) {
  if (text.empty()) return;
  for (const std::string_view word : words_of(t, text, matcher)) encode_word(t, word, tokens);
}

// Of a text that is valid UTF-8: cut at the added tokens.
void encode_valid(const Tokenizer& t, std::string_view text, Matcher& matcher, std::vector<int>& tokens) {
  std::size_t begin = 0;
  std::size_t at = t.added.empty() ? text.size() : 0;
  while (at < text.size()) {
    const auto [size, id] = t.added.longest(text.substr(at));
    if (size == 0) {
      ++at;
      continue;
    }
    encode_plain(t, text.substr(begin, at - begin), matcher, tokens);
    tokens.push_back(id);
    at += size;
    begin = at;
  }
  encode_plain(t, text.substr(begin), matcher, tokens);
}

// The bytes of UTF-8 with which the text begins; 0 if its first byte is none.
std::size_t valid_length(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size()) {
    const std::size_t length = character_length(text.substr(end));
    if (length == 0) break;
    end += length;
  }
  return end;
}

// Can a text have the token? Pieces of several bytes result from merges.
bool can_occur(const Tokenizer& t, int token) {
  if (t.adds_bos && token == t.bos) return true;
  const std::string& piece = t.pieces[static_cast<std::size_t>(token)];
  const auto found = t.ids.find(piece);
  const bool is_piece = found != t.ids.end() && found->second == token;
  if (!is_piece) return !piece.empty();
  if (piece.size() == 1 || t.takes_words || t.bytes) return true;
  return std::ranges::any_of(t.merges, [&](const auto& merge) { return merge.second.result == token; });
}

}  // namespace

std::vector<int> Tokenizer::encode(std::string_view text) const {
  std::vector<int> tokens;
  if (adds_bos) tokens.push_back(bos.value());
  const bool has_blank = adds_blank && !text.empty();
  const std::string all = (has_blank ? " " : "") + std::string(text);
  Matcher matcher(all.size());
  for (std::string_view rest = all; !rest.empty();) {
    std::size_t length = valid_length(rest);
    if (length > 0) {
      encode_valid(*this, rest.substr(0, length), matcher, tokens);
    } else {
      length = 1;
      encode_word(*this, rest.substr(0, length), tokens);
    }
    rest.remove_prefix(length);
  }
  return tokens;
}

std::string Tokenizer::decode(std::span<const int> tokens, std::size_t first) const {
  std::string text;
  for (std::size_t i = first; i < tokens.size(); ++i) {
    check<IndexError>(tokens[i] >= 0 && tokens[i] < size(), "decode: token ", tokens[i], " of ", size());
    const std::string& piece = pieces[static_cast<std::size_t>(tokens[i])];
    const bool is_at_start = i == 0 || tokens[i - 1] == bos;
    const bool drops_blank = adds_blank && is_at_start && piece.starts_with(' ');
    text += piece.substr(drops_blank);
  }
  return text;
}

void Tokenizer::fit(int model_vocabulary, std::string_view name) {
  constexpr int kMostBeyond = 16;  // each takes a look at all merges
  bool fits = size() - model_vocabulary <= kMostBeyond;
  for (int token = model_vocabulary; fits && token < size(); ++token) fits = !can_occur(*this, token);
  check<FormatError>(fits, name, ": the tokenizer has ", size(), " tokens, the model ", model_vocabulary);
  pieces.resize(static_cast<std::size_t>(model_vocabulary));
}

bool Tokenizer::add_merge(const std::string& left, const std::string& right, double order) {
  const auto a = ids.find(left);
  const auto b = ids.find(right);
  const auto both = ids.find(left + right);
  const bool are_tokens = a != ids.end() && b != ids.end() && both != ids.end();
  return are_tokens && merges.try_emplace(merge_key(a->second, b->second), Merge{order, both->second}).second;
}

void Tokenizer::add_pattern(const std::string& pattern, std::string_view name, Keep keep) {
  constexpr std::size_t kMostSteps = 64;
  check<FormatError>(steps.size() < kMostSteps, name, ": there are more than ", kMostSteps, " patterns");
  steps.push_back({Pattern(pattern, name), keep});
}

}  // namespace SEPPO_ABI
}  // namespace seppo
