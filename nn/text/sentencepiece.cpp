// Reads llama2.c's tokenizer.bin, and finds all merges by the beginnings and ends that are tokens.
#include "sentencepiece.h"

#include "whole_file.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

namespace {

constexpr int kFirstByte = 3;                  // the tokens before are unknown, BOS and EOS
constexpr int kFirstPiece = kFirstByte + 256;  // those from here on are pieces of text
constexpr int kLongestToken = 1024;
constexpr int kNone = -1;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// For each of these different texts, the index of the longest other with which it begins, or kNone.
std::vector<int> longest_beginnings(std::span<const std::string> texts) {
  std::vector<int> order(texts.size());
  std::iota(order.begin(), order.end(), 0);
  const auto text = [&](int index) -> const std::string& { return texts[at(index)]; };
  std::ranges::sort(order, std::less<>(), text);
  std::vector<int> found(texts.size(), kNone);
  std::vector<int> open;  // each begins with those before it
  for (const int index : order) {
    while (!open.empty() && !text(index).starts_with(text(open.back()))) open.pop_back();
    if (!open.empty()) found[at(index)] = open.back();
    open.push_back(index);
  }
  return found;
}

// Adds the merge of each two tokens, from kFirstPiece on, whose concatenation is a token. All beginnings of a token
// that are tokens form a chain, and so do all ends: time and memory in proportion to the bytes.
void add_merges(Tokenizer& made, std::span<const double> scores) {
  const std::span<const std::string> texts = std::span(made.pieces).subspan(kFirstPiece);
  Bpe& bpe = std::get<Bpe>(made.model);
  std::vector<std::string> reversed(texts.begin(), texts.end());
  for (std::string& text : reversed) std::ranges::reverse(text);
  const std::vector<int> beginnings = longest_beginnings(texts);
  const std::vector<int> ends = longest_beginnings(reversed);
  std::vector<int> end_of;  // by its length, the end of a token that is a token, or kNone
  for (std::size_t index = 0; index < texts.size(); ++index) {
    const std::size_t size = texts[index].size();
    end_of.assign(size, kNone);
    for (int end = ends[index]; end != kNone; end = ends[at(end)]) end_of[texts[at(end)].size()] = end;
    const int result = kFirstPiece + static_cast<int>(index);
    for (int left = beginnings[index]; left != kNone; left = beginnings[at(left)]) {
      const int right = end_of[size - texts[at(left)].size()];
      if (right == kNone) continue;
      bpe.merges.add(merge_key(kFirstPiece + left, kFirstPiece + right), {0, result});
    }
  }
  bpe.order_by_scores(scores);
}

// Reads the file from its beginning to its end.
class LlamaBinReader {
 public:
  explicit LlamaBinReader(const std::filesystem::path& path) : name_(printable_path(path)), file_(read_whole(path)) {}

  Tokenizer read() {
    longest_ = std::min(number<int>(), kLongestToken);
    while (at_ < file_.size() || made_.size() < kFirstPiece) read_token();
    add_merges(made_, scores_);
    made_.normalizers.emplace_back(Prepend{" "});
    made_.decoder.of_text.emplace_back(DecodeStrip{" ", 1, 0, /*is_of_text=*/true});
    if (!has_inner_blanks_) made_.add_step(CutAtMarks{" "}, name_);  // the same tokens in less time and memory
    bpe().fallback.emplace();
    std::iota(bpe().fallback->begin(), bpe().fallback->end(), kFirstByte);
    return std::move(made_);
  }

 private:
  Bpe& bpe() { return std::get<Bpe>(made_.model); }

  const char* take(std::size_t size) {
    check<FormatError>(size <= file_.size() - at_, name_, ": byte ", at_, ": the end, but ", size,
                       " bytes are to come");
    const char* const begin = &file_[at_];
    at_ += size;
    return begin;
  }

  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }

  void read_token() {
    const std::size_t begin = at_;
    const int id = made_.size();
    const auto where = [&] { return concat_text(name_, ": byte ", begin, ": token ", id, ": "); };
    const auto score = number<float>();
    const int size = number<int>();
    const bool is_in_range = std::isfinite(score) && size > 0 && size <= longest_;
    if (!is_in_range)
      fail<FormatError>(where(), "has the score ", score, " and ", size, " bytes, of at most ", longest_);
    scores_.push_back(static_cast<double>(score));
    const std::string text(take(at(size)), at(size));
    if (id < kFirstByte) {
      made_.pieces.emplace_back();
    } else if (id < kFirstPiece) {
      const int byte = id - kFirstByte;
      if (text != name_of_byte(byte)) fail<FormatError>(where(), "is not the byte ", name_of_byte(byte));
      made_.pieces.emplace_back(1, static_cast<char>(byte));
    } else {
      if (!bpe().ids.emplace(text, id).second) fail<FormatError>(where(), "'", printable(text), "' is there twice");
      made_.pieces.push_back(text);
      has_inner_blanks_ |= text.find(' ', text.find_first_not_of(' ')) != text.npos;
    }
  }

  std::string name_, file_;
  std::size_t at_ = 0;
  int longest_ = 0;
  Tokenizer made_{.model = Bpe{}, .before = {1}, .bos = 1, .eos = 2};
  std::vector<double> scores_;
  bool has_inner_blanks_ = false;  // beside those at the beginnings of tokens
};

}  // namespace

Tokenizer read_sentencepiece(const std::filesystem::path& file) { return LlamaBinReader(file).read(); }

}  // namespace SEPPO_ABI
}  // namespace seppo
