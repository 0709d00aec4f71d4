// Walks the double array: the unit of a node holds the label by which it is reached, and the offset of its children.
#include "charsmap.h"

#include "characters.h"
#include "unicode.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/utf8.h"

#include <algorithm>
#include <cstring>

namespace seppo {
inline namespace SEPPO_ABI {

namespace {

constexpr std::size_t kMostReplaced = 6;  // bytes of a cluster that is replaced as a whole are fewer
constexpr std::size_t kMostOfText = 64;   // bytes that a character becomes

// The bits of a unit.
bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1) == 1; }
std::uint32_t value_of(std::uint32_t unit) { return unit & 0x7FFFFFFF; }
std::uint32_t label_of(std::uint32_t unit) { return unit & (0x80000000 | 0xFF); }
std::uint32_t offset_of(std::uint32_t unit) { return unit >> 10 << ((unit & 0x200) >> 6); }

}  // namespace

Charsmap::Charsmap(std::string_view table, std::string_view name) {
  std::uint32_t bytes = 0;
  const bool has_size = table.size() >= sizeof bytes;
  if (has_size) std::memcpy(&bytes, table.data(), sizeof bytes);
  const bool is_whole = has_size && bytes > 0 && bytes % 4 == 0 && bytes <= table.size() - sizeof bytes;
  check<FormatError>(is_whole, name, ": 'precompiled_charsmap': ", table.size(), " bytes have no trie of ", bytes);
  units_.resize(bytes / 4);
  std::memcpy(units_.data(), table.data() + sizeof bytes, bytes);
  texts_ = table.substr(sizeof bytes + bytes);
  check<FormatError>(utf8_length(texts_) == texts_.size(), name, ": 'precompiled_charsmap': a text is not UTF-8");
  for (std::size_t begin = 0; begin < texts_.size();) {
    const std::size_t end = std::min(texts_.find('\0', begin), texts_.size());
    check<FormatError>(end - begin <= kMostOfText, name, ": 'precompiled_charsmap': a text has ", end - begin,
                       " bytes, more than ", kMostOfText);
    begin = end + 1;
  }
}

// What becomes of the shortest beginning that the table has.
std::optional<std::string_view> Charsmap::replacement(std::string_view text) const {
  std::size_t node = offset_of(units_[0]);
  for (const char c : text) {
    const auto label = static_cast<unsigned char>(c);
    node ^= label;
    if (label == 0 || node >= units_.size() || label_of(units_[node]) != label) return {};
    const std::uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    const std::size_t at = node < units_.size() ? value_of(units_[node]) : texts_.size();
    const bool begins_a_character = at < texts_.size() && character_length(std::string_view(texts_).substr(at)) > 0;
    if (!begins_a_character) return {};
    const std::string_view rest = std::string_view(texts_).substr(at);
    return rest.substr(0, rest.find('\0'));
  }
  return {};
}

void Charsmap::append(std::string_view cluster, std::string& made) const {
  if (cluster.size() < kMostReplaced) {
    if (const auto found = replacement(cluster)) {
      made += *found;
      return;
    }
  }
  each_character(cluster,
                 [&](std::string_view character, char32_t) { made += replacement(character).value_or(character); });
}

std::string Charsmap::apply(std::string_view text, std::size_t most) const {
  std::string made;
  while (!text.empty() && made.size() <= most) {
    const std::size_t length = grapheme_length(text);
    append(text.substr(0, length), made);
    text.remove_prefix(length);
  }
  return made;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
