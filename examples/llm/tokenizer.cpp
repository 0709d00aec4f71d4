// Byte-pair encoding: the tokens of a word form a linked list, the pairs that can merge a heap.
#include "llm/tokenizer.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/utf8.h>

#include <algorithm>
#include <numeric>
#include <queue>
#include <tuple>

namespace llm {

using seppo::character_length;
using seppo::check;
using seppo::FormatError;
using seppo::IndexError;

namespace {

void merge(const Tokenizer& t, std::vector<int>& tokens) {
  const std::size_t size = tokens.size();
  std::vector<std::size_t> next(size + 1), previous(size + 1);  // next is 0 for a token that was merged away
  std::iota(next.begin(), next.end(), 1);
  std::iota(previous.begin() + 1, previous.end(), 0);
  // The merge's order; the positions of both tokens, and of the one after them; the merged token.
  using Pair = std::tuple<double, std::size_t, std::size_t, std::size_t, int>;
  std::priority_queue<Pair, std::vector<Pair>, std::greater<>> pairs;
  const auto consider = [&](std::size_t left) {
    const std::size_t right = next[left];
    if (right >= size) return;
    const auto found = t.merges.find(merge_key(tokens[left], tokens[right]));
    if (found != t.merges.end()) pairs.push({found->second.first, left, right, next[right], found->second.second});
  };
  for (std::size_t at = 0; at < size; ++at) consider(at);
  while (!pairs.empty()) {
    const auto [order, left, right, end, merged] = pairs.top();
    pairs.pop();
    if (next[left] != right || next[right] != end) continue;  // one of them has been merged since
    tokens[left] = merged;
    next[left] = end;
    next[right] = 0;
    previous[end] = left;
    if (left > 0) consider(previous[left]);
    consider(left);
  }
  std::size_t count = 0;
  for (std::size_t at = 0; at < size; at = next[at]) tokens[count++] = tokens[at];
  tokens.resize(count);
}

void encode_word(const Tokenizer& t, std::string_view word, std::vector<int>& tokens) {
  std::vector<int> parts;
  const bool is_token = t.takes_words && t.ids.contains(std::string(word));
  for (std::size_t length; !word.empty(); word.remove_prefix(length)) {
    length = is_token ? word.size() : t.bytes ? std::max<std::size_t>(1, character_length(word)) : 1;
    const auto found = t.ids.find(std::string(word.substr(0, length)));
    if (found != t.ids.end())
      parts.push_back(found->second);
    else if (t.bytes)
      for (const char c : word.substr(0, length)) parts.push_back(*t.bytes + static_cast<unsigned char>(c));
  }
  merge(t, parts);
  tokens.insert(tokens.end(), parts.begin(), parts.end());
}

// The words of a text that is valid UTF-8.
std::vector<std::string_view> words_of(const Tokenizer& t, std::string_view text, Matcher& matcher) {
  std::vector<std::string_view> words{text}, next;
  for (const Tokenizer::Step& step : t.steps) {
    next.clear();
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
  for (std::size_t at = 0; at < text.size() && !t.added.empty();) {
    const auto [size, id] = t.added.longest(text.substr(at));
    if (size > 0) {
      encode_plain(t, text.substr(begin, at - begin), matcher, tokens);
      tokens.push_back(id);
      begin = at + size;
    }
    at += std::max<std::size_t>(size, 1);
  }
  encode_plain(t, text.substr(begin), matcher, tokens);
}

}  // namespace

std::vector<int> Tokenizer::encode(std::string_view text) const {
  std::vector<int> tokens;
  if (adds_bos) tokens.push_back(bos.value());
  const std::string all = (adds_blank && !text.empty() ? " " : "") + std::string(text);
  const std::string_view view = all;
  Matcher matcher(all.size());
  for (std::size_t begin = 0, end = 0, length; begin < all.size(); begin = end) {
    while (end < all.size() && (length = character_length(view.substr(end))) > 0) end += length;
    if (begin < end)
      encode_valid(*this, view.substr(begin, end - begin), matcher, tokens);
    else
      encode_word(*this, view.substr(end++, 1), tokens);
  }
  return tokens;
}

std::string Tokenizer::decode(std::span<const int> tokens, std::size_t first) const {
  std::string text;
  for (std::size_t i = first; i < tokens.size(); ++i) {
    check<IndexError>(tokens[i] >= 0 && tokens[i] < size(), "decode: token ", tokens[i], " of ", size());
    const std::string& piece = pieces[static_cast<std::size_t>(tokens[i])];
    const bool drops_blank = adds_blank && (i == 0 || tokens[i - 1] == bos) && piece.starts_with(' ');
    text += piece.substr(drops_blank);
  }
  return text;
}

bool Tokenizer::add_merge(const std::string& left, const std::string& right, double order) {
  const auto a = ids.find(left), b = ids.find(right), both = ids.find(left + right), none = ids.end();
  return a != none && b != none && both != none &&
         merges.try_emplace(merge_key(a->second, b->second), order, both->second).second;
}

void Tokenizer::add_pattern(const std::string& pattern, std::string_view name, Keep keep) {
  constexpr std::size_t kMostSteps = 64;
  check<FormatError>(steps.size() < kMostSteps, name, ": there are more than ", kMostSteps, " patterns");
  steps.push_back({Pattern(pattern, name), keep});
}

}  // namespace llm
