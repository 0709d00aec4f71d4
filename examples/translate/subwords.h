// Subwords: pieces of words that a model of the sentencepiece library finds (Kudo and Richardson 2018). Only where
// seppo was built with libsentencepiece-dev.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace translate {

constexpr const char* kSubwordsFile = "subwords.model";  // in a model's folder; sentencepiece's own format

class Subwords {
 public:
  static bool available();
  // Learns at most `size` pieces from the texts. Throws ArgumentError if sentencepiece finds fault, or is not there.
  static Subwords train(std::span<const std::string> texts, int size);
  // Throws FileError or FormatError.
  static Subwords load(const std::filesystem::path& path);
  void save(const std::filesystem::path& path) const;  // throws FileError

  std::vector<std::string> split(std::string_view text) const;
  std::string join(std::span<const std::string> pieces) const;

  struct Processor;  // sentencepiece's

 private:
  explicit Subwords(std::shared_ptr<const Processor> processor) : processor_(std::move(processor)) {}
  std::shared_ptr<const Processor> processor_;
};

}  // namespace translate
