// Subwords with SentencePiece, if the build has it.
#include "translate/subwords.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/printable.h>

#ifdef TRANSLATE_HAS_SENTENCEPIECE

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

namespace translate {

struct Subwords::Processor {
  explicit Processor(std::string bytes) : model(std::move(bytes)) {}
  std::string model;  // serialised, as in a file
  sentencepiece::SentencePieceProcessor processor;
};

namespace {

// Iterates over the texts for SentencePiece.
class Texts : public sentencepiece::SentenceIterator {
 public:
  explicit Texts(std::span<const std::string> texts) : texts_(texts) {}
  bool done() const override { return at_ == texts_.size(); }
  void Next() override { ++at_; }
  const std::string& value() const override { return texts_[at_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::span<const std::string> texts_;
  std::size_t at_ = 0;
};

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// Base64 (RFC 4648, 4), without padding.
std::string encoded(std::string_view bytes) {
  std::string text;
  unsigned bits = 0;
  int count = 0;
  for (const char byte : bytes) {
    bits = bits << 8 | static_cast<unsigned char>(byte);
    for (count += 8; count >= 6; count -= 6) text += kDigits[bits >> (count - 6) & 63];
  }
  if (count > 0) text += kDigits[bits << (6 - count) & 63];
  return text;
}

std::string decoded(std::string_view text) {
  std::string bytes;
  unsigned bits = 0;
  int count = 0;
  for (const char c : text) {
    const std::size_t digit = kDigits.find(c);
    seppo::check<seppo::FormatError>(digit != kDigits.npos, "the subwords of the model are not in base64");
    bits = bits << 6 | static_cast<unsigned>(digit);
    if ((count += 6) >= 8) bytes += static_cast<char>(bits >> (count -= 8) & 255);
  }
  return bytes;
}

template <class Error>
std::shared_ptr<const Subwords::Processor> processor_of(std::string bytes, const std::string& name) {
  auto result = std::make_shared<Subwords::Processor>(std::move(bytes));
  const auto status = result->processor.LoadFromSerializedProto(result->model);
  seppo::check<Error>(status.ok(), name, ": ", seppo::printable(status.ToString(), 120));
  return result;
}

}  // namespace

bool Subwords::available() { return true; }

Subwords Subwords::train(std::span<const std::string> texts, int size) {
  Texts iterator(texts);
  std::string bytes;
  const auto status = sentencepiece::SentencePieceTrainer::Train({{"vocab_size", std::to_string(size)},
                                                                  {"hard_vocab_limit", "false"},
                                                                  {"character_coverage", "1.0"},
                                                                  {"num_threads", "1"},
                                                                  {"minloglevel", "3"}},
                                                                 &iterator, &bytes);
  seppo::check<seppo::ArgumentError>(status.ok(), "--subwords: sentencepiece says ",
                                     seppo::printable(status.ToString(), 160));
  return Subwords(processor_of<seppo::ArgumentError>(std::move(bytes), "sentencepiece"));
}

Subwords Subwords::from_base64(std::string_view text) {
  return Subwords(processor_of<seppo::FormatError>(decoded(text), "the subwords of the model"));
}

std::string Subwords::base64() const { return encoded(processor_->model); }

std::vector<std::string> Subwords::split(std::string_view text) const {
  return processor_->processor.EncodeAsPieces(text);
}

std::string Subwords::join(std::span<const std::string> pieces) const {
  return processor_->processor.DecodePieces(std::vector<std::string>(pieces.begin(), pieces.end()));
}

}  // namespace translate

#else

namespace translate {
namespace {

[[noreturn]] void missing() {
  throw seppo::ArgumentError(
      "subwords: this program was built without sentencepiece (apt-get install libsentencepiece-dev)");
}

}  // namespace

bool Subwords::available() { return false; }
Subwords Subwords::train(std::span<const std::string>, int) { missing(); }
Subwords Subwords::from_base64(std::string_view) { missing(); }
std::string Subwords::base64() const { missing(); }
std::vector<std::string> Subwords::split(std::string_view) const { missing(); }
std::string Subwords::join(std::span<const std::string>) const { missing(); }

}  // namespace translate

#endif
