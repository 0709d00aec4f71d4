// Tokens that a tokenizer has beside its model's, at which texts are cut first.
#pragma once

#include "text_trie.h"

#include "../../autograd/core/real.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// Texts are cut at them: at the longest of those that begin leftmost. A special one, such as EOS, is not written as
// text, and texts are cut at it only where special tokens are asked for.
struct AddedToken {
  std::string text;
  int id = 0;
  bool is_special = true;
  bool strips_left = false, strips_right = false;  // takes the white space before it, behind it
  bool is_word = false;                            // not within a word
  bool is_normalized = false;                      // `text` is, and is looked for in normalized texts
};

class AddedTokens {
 public:
  // A part of a text: an added token, or text between two if `token` is kText.
  struct Part {
    static constexpr int kText = -1;
    std::string_view text;
    int token = kText;
  };

  bool empty() const { return trie_.empty(); }
  void add(const AddedToken& token);
  // The parts of valid UTF-8; one if the text is empty.
  std::vector<Part> cut(std::string_view text, bool takes_special) const;
  // The id of the one with this text.
  std::optional<int> id(std::string_view text) const;
  // Makes the one with this id special. Returns its text, unless there is none or it was special.
  std::optional<std::string> make_special(int id);
  // Those with other ids are as if they had not been added.
  void keep_below(int ids);

 private:
  TextTrie trie_;  // numbers are places in `tokens_`
  std::vector<AddedToken> tokens_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
