// Writes a tokenizer.model, SentencePiece's file.
#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace test::sentencepiece {

// Messages of protocol buffers, as their encoding's description says.
inline std::string varint(std::uint64_t number) {
  std::string bytes;
  for (; number >= 128; number >>= 7) bytes += static_cast<char>((number & 127) | 128);
  return bytes + static_cast<char>(number);
}
inline std::string number(unsigned field, std::uint64_t value) { return varint(field << 3) + varint(value); }
inline std::string text(unsigned field, const std::string& value) {
  return varint(field << 3 | 2) + varint(value.size()) + value;
}
inline std::string real(unsigned field, float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  std::string bytes = varint(field << 3 | 5);
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(bits >> 8 * i);
  return bytes;
}

enum Type : std::uint64_t { normal = 1, unknown, control, user_defined, unused, byte };

struct Model {
  std::string pieces = {};
  std::string trainer = number(3, 2);  // BPE
  std::string normalizer = {};
  std::vector<std::string> texts = {};
  std::map<std::string, float> scores = {};

  Model() {
    add("<unk>", 0, unknown);
    add("<s>", 0, control);
    add("</s>", 0, control);
  }
  void add(const std::string& piece, float score, Type type = normal) {
    pieces += text(1, text(1, piece) + real(2, score) + number(3, type));
    texts.push_back(piece);
    if (type == normal) scores[piece] = score;
  }
  std::string bytes() const { return pieces + text(2, trainer) + text(3, normalizer) + text(4, "passed over"); }
};

}  // namespace test::sentencepiece
