// Pre-tokenizers: how a text is cut into words before each becomes tokens, as the `pre_tokenizer` of a tokenizer.json
// says.
#pragma once

#include "normalizers.h"
#include "pattern.h"

#include "../../autograd/core/real.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// What becomes of the matches of a pattern: words, nothing, parts of the word before or behind, or words together with
// the matches next to them.
enum class Matches : std::uint8_t { isolated, removed, merged_with_previous, merged_with_next, contiguous };

struct SplitText {
  Pattern pattern;
  Matches matches = Matches::isolated;
  bool is_inverted = false;  // the text between matches is treated as matches, and they as it
};
// SentencePiece's: spaces become a mark, U+2581, with which words begin.
struct Metaspace {
  enum class Prefix { always, first, never };
  std::string mark = "\xE2\x96\x81";
  Prefix prefix = Prefix::always;  // where a mark is put before a text that begins with none
  bool splits = true;
};
// GPT-2's.
struct ByteLevel {
  bool adds_space = false;          // before a text that begins with none
  std::vector<Pattern> words = {};  // at most one
  bool is_written = false;          // in the alphabet, for steps behind; else words remain bytes
};
// Before each run of marks, where no token has a mark behind another character: the same tokens from shorter words.
struct CutAtMarks {
  std::string mark;
};

using PreTokenizer = std::variant<SplitText, Metaspace, ByteLevel, CutAtMarks>;

// Words of one text, in order. They are parts of the text that was given, or of `changed`.
struct Words {
  Words(std::string_view text, TextPlace where, bool begins_text) : words{text}, place(where), is_first(begins_text) {}
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;

  std::vector<std::string_view> words;
  TextPlace place;
  bool is_first;  // does words[0] begin where the whole text does?
  std::string changed = {};
};

// Cuts the words by all of them, one after the other; empty words vanish. Throws FormatError if a pattern takes too
// long (pattern.h).
void pre_tokenize(std::span<const PreTokenizer> steps, Words& words, Matcher& matcher);

}  // namespace SEPPO_ABI
}  // namespace seppo
