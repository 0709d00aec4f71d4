// Each number is a quantised one, an integer, times a scale and plus a minimum, computed in floats as ggml does.
#include "gguf_blocks.h"

#include "safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

namespace seppo {
inline namespace SEPPO_ABI {

namespace {

constexpr std::size_t kSmall = 32;   // numbers of a block of Q8_0, Q4_0 and so on
constexpr std::size_t kLarge = 256;  // of Q4_K and so on: eight or sixteen parts, with a scale for each

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

unsigned byte_at(const std::byte* from, std::size_t i) { return std::to_integer<unsigned>(from[i]); }

// Number i of those whose lower half is in `bytes`: byte i has number i in its lower half and 16 + i in its upper.
unsigned half_at(const std::byte* bytes, std::size_t i) {
  return i < kSmall / 2 ? byte_at(bytes, i) & 15 : byte_at(bytes, i - kSmall / 2) >> 4;
}

// ---- one block -----------------------------------------------------------------------------------

void decode_q8_0(const std::byte* block, real* to) {
  const float d = load<Half>(block);
  for (std::size_t i = 0; i < kSmall; ++i) to[i] = d * static_cast<float>(load<std::int8_t>(block + 2 + i));
}

void decode_q4_0(const std::byte* block, real* to) {
  const float d = load<Half>(block);
  for (std::size_t i = 0; i < kSmall; ++i) to[i] = d * (static_cast<float>(half_at(block + 2, i)) - 8);
}

void decode_q4_1(const std::byte* block, real* to) {
  const float d = load<Half>(block), m = load<Half>(block + 2);
  for (std::size_t i = 0; i < kSmall; ++i) to[i] = d * static_cast<float>(half_at(block + 4, i)) + m;
}

// The fifth bits of all numbers are in one word.
unsigned five_bits(const std::byte* fifth, const std::byte* halves, std::size_t i) {
  return half_at(halves, i) | (load<std::uint32_t>(fifth) >> i & 1) << 4;
}

void decode_q5_0(const std::byte* block, real* to) {
  const float d = load<Half>(block);
  for (std::size_t i = 0; i < kSmall; ++i) to[i] = d * (static_cast<float>(five_bits(block + 2, block + 6, i)) - 16);
}

void decode_q5_1(const std::byte* block, real* to) {
  const float d = load<Half>(block), m = load<Half>(block + 2);
  for (std::size_t i = 0; i < kSmall; ++i) to[i] = d * static_cast<float>(five_bits(block + 4, block + 8, i)) + m;
}

// The scale and the minimum of a part of 32 numbers, of six bits each. Twelve bytes have those of eight parts: the
// first four as they are, and above them the upper two bits of the others.
struct PartScale {
  float scale, minimum;
};
PartScale part_scale(const std::byte* packed, std::size_t part) {
  unsigned scale = byte_at(packed, part) & 63, minimum = byte_at(packed, part + 4) & 63;
  if (part >= 4) {
    const unsigned lower = byte_at(packed, part + 4);
    scale = (lower & 15) | byte_at(packed, part - 4) >> 6 << 4;
    minimum = lower >> 4 | byte_at(packed, part) >> 6 << 4;
  }
  return {static_cast<float>(scale), static_cast<float>(minimum)};
}

// Two parts share 32 bytes, one in their lower and one in their upper halves. With fifth bits, byte i of those has that
// of number i of each part.
void decode_parts(const std::byte* block, const std::byte* fifth, const std::byte* halves, real* to) {
  const float d = load<Half>(block), m = load<Half>(block + 2);
  for (std::size_t part = 0; part < kLarge / kSmall; ++part) {
    const PartScale own = part_scale(block + 4, part);
    const float scale = d * own.scale, minimum = m * own.minimum;
    for (std::size_t i = 0; i < kSmall; ++i) {
      unsigned q = byte_at(halves + part / 2 * kSmall, i) >> part % 2 * 4 & 15;
      if (fifth) q |= (byte_at(fifth, i) >> part & 1) << 4;
      to[part * kSmall + i] = scale * static_cast<float>(q) - minimum;
    }
  }
}

void decode_q4_k(const std::byte* block, real* to) { decode_parts(block, nullptr, block + 16, to); }
void decode_q5_k(const std::byte* block, real* to) { decode_parts(block, block + 16, block + 48, to); }

// Two halves of 128 numbers, each of four runs of 32: their lower four bits in 64 bytes, the upper two of number i of
// each run in byte i of 32 more; a scale for each 16 numbers.
void decode_q6_k(const std::byte* block, real* to) {
  const std::byte *const lower = block, *const upper = block + 128, *const scales = block + 192;
  const float d = load<Half>(block + 208);
  for (std::size_t n = 0; n < kLarge; ++n) {
    const std::size_t half = n / 128, run = n % 128 / kSmall, i = n % kSmall;
    const unsigned four = byte_at(lower, 64 * half + run % 2 * kSmall + i) >> run / 2 * 4 & 15;
    const unsigned two = byte_at(upper, kSmall * half + i) >> 2 * run & 3;
    const float q = static_cast<float>(four | two << 4) - 32;
    to[n] = d * static_cast<float>(load<std::int8_t>(scales + n / 16)) * q;
  }
}

// ---- all blocks ----------------------------------------------------------------------------------

template <class T>
void decode_plain(std::span<const std::byte> bytes, real* to) {
  for (std::size_t i = 0; i < bytes.size() / sizeof(T); ++i)
    to[i] = static_cast<real>(static_cast<float>(load<T>(&bytes[i * sizeof(T)])));
}

template <std::size_t size, std::size_t bytes_of_one, void (*decode)(const std::byte*, real*)>
void decode_blocks(std::span<const std::byte> bytes, real* to) {
  for (std::size_t at = 0; at < bytes.size(); at += bytes_of_one, to += size) decode(&bytes[at], to);
}

template <std::size_t size, std::size_t bytes, void (*decode)(const std::byte*, real*)>
constexpr GgufType blocks(std::uint32_t id, const char* name) {
  return {id, name, size, bytes, decode_blocks<size, bytes, decode>};
}

constexpr GgufType unread(std::uint32_t id, const char* name) { return {id, name, 0, 0, nullptr}; }

constexpr GgufType kTypes[] = {{0, "F32", 1, 4, decode_plain<float>},
                               {1, "F16", 1, 2, decode_plain<Half>},
                               {30, "BF16", 1, 2, decode_plain<BFloat>},
                               blocks<kSmall, 34, decode_q8_0>(8, "Q8_0"),
                               blocks<kSmall, 18, decode_q4_0>(2, "Q4_0"),
                               blocks<kSmall, 20, decode_q4_1>(3, "Q4_1"),
                               blocks<kSmall, 22, decode_q5_0>(6, "Q5_0"),
                               blocks<kSmall, 24, decode_q5_1>(7, "Q5_1"),
                               blocks<kLarge, 144, decode_q4_k>(12, "Q4_K"),
                               blocks<kLarge, 176, decode_q5_k>(13, "Q5_K"),
                               blocks<kLarge, 210, decode_q6_k>(14, "Q6_K"),
                               unread(9, "Q8_1"),
                               unread(10, "Q2_K"),
                               unread(11, "Q3_K"),
                               unread(15, "Q8_K"),
                               unread(16, "IQ2_XXS"),
                               unread(17, "IQ2_XS"),
                               unread(18, "IQ3_XXS"),
                               unread(19, "IQ1_S"),
                               unread(20, "IQ4_NL"),
                               unread(21, "IQ3_S"),
                               unread(22, "IQ2_S"),
                               unread(23, "IQ4_XS"),
                               unread(29, "IQ1_M"),
                               unread(34, "TQ1_0"),
                               unread(35, "TQ2_0"),
                               unread(39, "MXFP4")};

template <class Condition>
const GgufType* find_type(Condition condition) {
  const auto* const found = std::ranges::find_if(kTypes, condition);
  return found == std::end(kTypes) ? nullptr : found;
}

}  // namespace

const GgufType* gguf_type(std::uint32_t id) {
  return find_type([&](const GgufType& type) { return type.id == id; });
}

const GgufType* gguf_type(std::string_view name) {
  return find_type([&](const GgufType& type) { return type.name == name; });
}

std::string gguf_types_that_are_read() {
  std::string names;
  for (const GgufType& type : kTypes)
    if (type.decode) names += (names.empty() ? "" : ", ") + std::string(type.name);
  return names;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
