// Lower-casing by code point, and the book's score.
#include "translate/d2l.h"

#include "app/words.h"

#include <seppo/autograd/core/utf8.h>
#include <seppo/nn/text/bleu.h>

#include <cmath>
#include <vector>

namespace translate {
namespace {

// The UTF-8 encoding of a two-byte code point; all results of small() beyond ASCII are below U+0800.
std::string two_bytes(char32_t code) {
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

std::string small(std::string_view character) {
  const char32_t code = seppo::code_point(character);
  const auto within = [&](char32_t first, char32_t last) { return code >= first && code <= last; };
  if (within('A', 'Z')) return {static_cast<char>(code + 0x20)};
  if ((within(0xC0, 0xDE) && code != 0xD7) || within(0x391, 0x3A9) || within(0x410, 0x42F))
    return two_bytes(code + 0x20);
  if (within(0x400, 0x40F)) return two_bytes(code + 0x50);
  // In Latin Extended-A, capitals and small letters alternate; the small letters of U+0130 and U+0178 are elsewhere.
  const bool even_first = within(0x100, 0x137) || within(0x14A, 0x177),
             odd_first = within(0x139, 0x148) || within(0x179, 0x17E);
  if (code != 0x130 && ((even_first && code % 2 == 0) || (odd_first && code % 2 == 1))) return two_bytes(code + 1);
  if (code == 0x178) return two_bytes(0xFF);
  return std::string(character);
}

}  // namespace

std::string normalised(std::string_view text) {
  std::string result;
  for (const std::string_view character : examples::split_characters(text)) {
    const bool is_blank = character == "\u202f" || character == "\u00a0";
    const bool is_mark = character.size() == 1 && std::string_view(",.!?").find(character[0]) != std::string_view::npos;
    if (is_mark && !result.empty() && result.back() != ' ') result += ' ';
    result += is_blank ? " " : small(character);
  }
  return result;
}

double bleu_k(std::span<const std::string> prediction, std::span<const std::string> label, int k) {
  const seppo::Sentence translation(prediction.begin(), prediction.end()), reference(label.begin(), label.end());
  const seppo::Bleu bleu = seppo::corpus_bleu({&translation, 1}, {&reference, 1}, k);
  double score = prediction.empty() ? 0 : bleu.brevity_penalty;
  for (std::size_t n = 1; n <= bleu.precisions.size() && bleu.ngrams[n - 1] > 0; ++n)
    score *= std::pow(bleu.precisions[n - 1], std::pow(0.5, n));
  return score;
}

}  // namespace translate
