// Reads llama2.c's tokenizer.bin.
#include "llm/tokenizer.h"
#include "llm/whole_file.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/printable.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace llm {

using seppo::check;
using seppo::FormatError;
using seppo::printable;
using seppo::printable_path;

namespace {

// For each of these different texts, the index of the longest other with which it begins, or -1.
std::vector<int> longest_beginnings(std::span<const std::string> texts) {
  std::vector<int> order(texts.size()), found(texts.size(), -1);
  std::iota(order.begin(), order.end(), 0);
  const auto text = [&](int index) -> const std::string& { return texts[static_cast<std::size_t>(index)]; };
  std::ranges::sort(order, std::less<>(), text);
  std::vector<int> open;  // each begins with those before it
  for (const int index : order) {
    while (!open.empty() && !text(index).starts_with(text(open.back()))) open.pop_back();
    if (!open.empty()) found[static_cast<std::size_t>(index)] = open.back();
    open.push_back(index);
  }
  return found;
}

// Adds the merge of each two tokens, from `first` on, whose concatenation is a token. All beginnings of a token that
// are tokens form a chain, and so do all ends: time and memory in proportion to the bytes.
void add_merges(Tokenizer& made, std::span<const float> scores, int first) {
  const std::span<const std::string> texts = std::span(made.pieces).subspan(static_cast<std::size_t>(first));
  std::vector<std::string> reversed(texts.begin(), texts.end());
  for (std::string& text : reversed) std::ranges::reverse(text);
  const std::vector<int> beginnings = longest_beginnings(texts), ends = longest_beginnings(reversed);
  std::vector<int> end_of;  // by its length, the end of a token that is a token, or -1
  for (std::size_t index = 0; index < texts.size(); ++index) {
    end_of.assign(texts[index].size(), -1);
    for (int end = ends[index]; end >= 0; end = ends[static_cast<std::size_t>(end)])
      end_of[texts[static_cast<std::size_t>(end)].size()] = end;
    const double order = -double{scores[index + static_cast<std::size_t>(first)]};
    for (int left = beginnings[index]; left >= 0; left = beginnings[static_cast<std::size_t>(left)]) {
      const int right = end_of[texts[index].size() - texts[static_cast<std::size_t>(left)].size()];
      if (right >= 0) made.merges[merge_key(first + left, first + right)] = {order, first + static_cast<int>(index)};
    }
  }
}

}  // namespace

Tokenizer read_sentencepiece(const std::filesystem::path& path) {
  constexpr int kBytes = 3, kPieces = kBytes + 256;
  const std::string file = read_whole(path), name = printable_path(path);
  std::size_t at = 0;
  const auto take = [&](int size) {
    check<FormatError>(static_cast<std::size_t>(size) <= file.size() - at, name, ": byte ", at, ": the end, but ", size,
                       " bytes are to come");
    at += static_cast<std::size_t>(size);
    return &file[at] - size;
  };
  const auto number = [&]<class T>(T value) { return std::memcpy(&value, take(sizeof value), sizeof value), value; };
  Tokenizer made{.bos = 1, .eos = 2, .adds_bos = true, .bytes = kBytes, .adds_blank = true};
  std::vector<float> scores;
  bool has_inner_blanks = false;
  const int longest = std::min(number(int{}), 1024);
  while (at < file.size() || made.size() < kPieces) {
    const int id = made.size();
    const std::size_t begin = at;
    scores.push_back(number(float{}));
    const int size = number(int{});
    check<FormatError>(std::isfinite(scores.back()) && size > 0 && size <= longest, name, ": byte ", begin, ": token ",
                       id, ": has the score ", scores.back(), " and ", size, " bytes, of at most ", longest);
    std::string piece(take(size), static_cast<std::size_t>(size));
    if (id >= kPieces) {
      check<FormatError>(made.ids.emplace(piece, id).second, name, ": byte ", begin, ": token ", id, ": '",
                         printable(piece), "' is there twice");
      has_inner_blanks |= piece.find(' ', piece.find_first_not_of(' ')) != piece.npos;
    } else if (id >= kBytes) {
      const int byte = id - kBytes;
      const std::string expected{'<', '0', 'x', "0123456789ABCDEF"[byte >> 4], "0123456789ABCDEF"[byte & 15], '>'};
      check<FormatError>(piece == expected, name, ": byte ", begin, ": token ", id, ": is not the byte ", expected);
      piece = static_cast<char>(byte);
    }
    made.pieces.push_back(id < kBytes ? "" : piece);
  }
  add_merges(made, scores, kPieces);
  if (!has_inner_blanks) made.add_pattern(" *+[^ ]*+", name);  // the same tokens in less time and memory
  return made;
}

}  // namespace llm
