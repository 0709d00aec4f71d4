// Attention by hand: words with vectors of three numbers, and weights small enough to follow with a pencil.
#pragma once

#include <string>
#include <string_view>

namespace addsub {

// Are these words, "I love you", rather than an expression? They have no digits, and none is a token of AddSub.
bool is_words(std::string_view text);

// Prints how one head of self-attention mixes them. Each different word has a vector of its own; throws FormatError
// if there are more of them than vectors.
void trace_words(const std::string& text, bool as_json);

}  // namespace addsub
