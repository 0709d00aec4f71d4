// Subwords: pieces of words that a model of the sentencepiece library finds (Kudo and Richardson 2018). Only where
// seppo was built with libsentencepiece-dev.
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
  // Learns at most `size` pieces from the texts. Throws ArgumentError if sentencepiece finds fault, or is not there.
  static Subwords train(std::span<const std::string> texts, int size);
  // Sentencepiece's own format, in base64, as a model file holds it. Throws FormatError.
  static Subwords from_base64(std::string_view text);
  std::string base64() const;

  std::vector<std::string> split(std::string_view text) const;
  std::string join(std::span<const std::string> pieces) const;

  struct Processor;  // sentencepiece's

 private:
  explicit Subwords(std::shared_ptr<const Processor> processor) : processor_(std::move(processor)) {}
  std::shared_ptr<const Processor> processor_;
};

}  // namespace translate
