// Looks for the longest token at each byte; one that is no whole word or not asked for is passed over.
#include "added_tokens.h"

#include "characters.h"

#include <algorithm>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

namespace {

bool is_whole_word(std::string_view text, std::size_t begin, std::size_t end) {
  const std::string_view before = text.substr(0, begin), behind = text.substr(end);
  const bool begins = before.empty() || !is_word_character(before.substr(last_character(before)));
  const bool ends = behind.empty() || !is_word_character(behind.substr(0, character_length(behind)));
  return begins && ends;
}

}  // namespace

void AddedTokens::add(const AddedToken& token) {
  trie_.add(token.text, static_cast<int>(tokens_.size()));
  tokens_.push_back(token);
}

std::vector<AddedTokens::Part> AddedTokens::cut(std::string_view text, bool takes_special) const {
  if (empty()) return {{text}};
  std::vector<Part> parts;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto [size, number] = trie_.longest(text.substr(at));
    if (size == 0) {
      ++at;
      continue;
    }
    std::size_t begin = at, end = at + size;
    at = end;
    const AddedToken& token = tokens_[static_cast<std::size_t>(number)];
    const bool is_asked_for = takes_special || !token.is_special;
    if (!is_asked_for || (token.is_word && !is_whole_word(text, begin, end))) continue;
    if (token.strips_left && done < begin) begin -= white_space_at_end(text.substr(done, begin - done));
    if (token.strips_right) end = end < done ? done : end + white_space_at_start(text.substr(end));
    if (done < begin) parts.push_back({text.substr(done, begin - done)});
    parts.push_back({text.substr(begin, end - begin), token.id});
    done = end;
  }
  if (done < text.size() || parts.empty()) parts.push_back({text.substr(done)});
  return parts;
}

std::optional<int> AddedTokens::id(std::string_view text) const {
  const auto [size, number] = trie_.longest(text);
  if (size == 0 || size != text.size()) return {};
  return tokens_[static_cast<std::size_t>(number)].id;
}

std::optional<std::string> AddedTokens::make_special(int id) {
  const auto found = std::ranges::find(tokens_, id, &AddedToken::id);
  if (found == tokens_.end() || found->is_special) return {};
  found->is_special = true;
  return found->text;
}

void AddedTokens::keep_below(int ids) {
  AddedTokens kept;
  for (const AddedToken& token : tokens_)
    if (token.id < ids) kept.add(token);
  *this = std::move(kept);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
