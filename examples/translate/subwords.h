// Subword tokenization with the SentencePiece library (Kudo and Richardson 2018). Available only if seppo was built
// with libsentencepiece-dev.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace translate {

class Subwords {
 public:
  static bool available();
  // Learns at most `size` pieces from the texts. Throws ArgumentError if SentencePiece reports an error or is not
  // available.
  static Subwords train(std::span<const std::string> texts, int size);
  // SentencePiece's own format, in base64, as a model file stores it. Throws FormatError.
  static Subwords from_base64(std::string_view text);
  std::string base64() const;

  std::vector<std::string> split(std::string_view text) const;
  std::string join(std::span<const std::string> pieces) const;

  struct Processor;  // SentencePiece's

 private:
  explicit Subwords(std::shared_ptr<const Processor> processor) : processor_(std::move(processor)) {}
  std::shared_ptr<const Processor> processor_;
};

}  // namespace translate
