// SentencePiece's table of characters and what becomes of them, "precompiled_charsmap" (Kudo and Richardson 2018).
//
// The table is a uint32, the bytes of a double-array trie, then the trie in uint32 units, then texts in UTF-8 that end
// with a zero byte; little-endian. The trie (Darts-clone, Yata) maps texts to offsets of others. As in Hugging Face's
// package, a grapheme cluster of fewer than six bytes is replaced as a whole if the table has a beginning of it, and
// otherwise character by character.
#pragma once

#include "../../autograd/core/real.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

class Charsmap {
 public:
  // Throws FormatError, "NAME: ...", if the table is not of this form.
  Charsmap(std::string_view table, std::string_view name);

  // What becomes of the text, up to the character with which it has more than `most` bytes.
  std::string apply(std::string_view text, std::size_t most) const;

 private:
  std::optional<std::string_view> replacement(std::string_view text) const;
  void append(std::string_view cluster, std::string& made) const;

  std::vector<std::uint32_t> units_;
  std::string texts_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
