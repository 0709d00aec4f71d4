// Subwords with SentencePiece, if the build has it.
#include "translate/subwords.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/printable.h>

#ifdef TRANSLATE_HAS_SENTENCEPIECE

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <memory>

namespace translate {
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

template <class Error>
void check_status(const sentencepiece::util::Status& status, const char* what) {
  seppo::check<Error>(status.ok(), what, ": ", seppo::printable(status.ToString(), 160));
}

}  // namespace

const bool kHasSubwords = true;

Subwords learn_subwords(std::span<const std::string> texts, int size) {
  Texts iterator(texts);
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train({{"vocab_size", std::to_string(size)},
                                                                  {"hard_vocab_limit", "false"},
                                                                  {"character_coverage", "1.0"},
                                                                  {"num_threads", "1"},
                                                                  {"minloglevel", "3"}},
                                                                 &iterator, &model);
  check_status<seppo::ArgumentError>(status, "--subwords: sentencepiece says");
  return load_subwords(model);
}

Subwords load_subwords(std::string model) {
  const auto processor = std::make_shared<sentencepiece::SentencePieceProcessor>();
  check_status<seppo::FormatError>(processor->LoadFromSerializedProto(model), "the subwords of the model");
  return {.model = std::move(model),
          .split = [processor](std::string_view text) { return processor->EncodeAsPieces(text); },
          .join =
              [processor](std::span<const std::string> pieces) {
                return processor->DecodePieces(std::vector<std::string>(pieces.begin(), pieces.end()));
              }};
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

const bool kHasSubwords = false;
Subwords learn_subwords(std::span<const std::string>, int) { missing(); }
Subwords load_subwords(std::string) { missing(); }

}  // namespace translate

#endif
