// Subword tokenization with the SentencePiece library (Kudo and Richardson 2018), if seppo was built with
// libsentencepiece-dev.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace translate {

struct Subwords {
  std::string model = {};  // in SentencePiece's own format
  std::function<std::vector<std::string>(std::string_view text)> split = {};
  std::function<std::string(std::span<const std::string> pieces)> join = {};
};

extern const bool kHasSubwords;

// Learns at most `size` pieces from the texts. Throws ArgumentError if SentencePiece reports an error or is missing.
Subwords learn_subwords(std::span<const std::string> texts, int size);

// Throws FormatError if `model` is not SentencePiece's, ArgumentError if that is missing.
Subwords load_subwords(std::string model);

}  // namespace translate
