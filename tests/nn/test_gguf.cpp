// GGUF files: metadata, the numbers of each type, and files that are not what they claim to be.
#include <seppo/autograd/core/check.h>
#include <seppo/nn/io/gguf.h>
#include <seppo/nn/io/safetensors.h>

#include "support/gguf.h"
#include "support/program.h"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

using namespace seppo;
using test::GgufBytes;
using test::GgufWriter;

namespace {

// The file with these bytes.
struct Written {
  test::Folder folder{"gguf"};
  std::filesystem::path path = folder.path / "f.gguf";

  explicit Written(const std::string& bytes) { folder.write("f.gguf", bytes); }
};

std::vector<real> values_of(const GgufFile& file, const std::string& tensor) {
  const GgufTensor& found = *file.find(tensor);
  std::vector<real> values(found.numel());
  file.read(found, values);
  return values;
}

void refused(const std::string& bytes, const std::string& part) {
  const Written written(bytes);
  BOOST_CHECK_EXCEPTION(GgufFile{written.path}, FormatError, [&](const FormatError& e) {
    const std::string what = e.what();
    BOOST_TEST_MESSAGE(what);
    return what.find("f.gguf: ") != what.npos && what.find(part) != what.npos && what.find('\n') == what.npos;
  });
}

GgufWriter small() {
  GgufWriter writer;
  writer.add("general.architecture", std::string("llama"));
  writer.add("rate", 1e-5F);
  writer.add("tokens", std::vector<std::string>{"a", "b c", ""});
  writer.floats("t", {3, 2}, {1, 2, 3, 4, 5, 6});
  return writer;
}

std::uint16_t half(double value) { return Half::nearest(static_cast<float>(value)).bits; }

}  // namespace

BOOST_AUTO_TEST_CASE(metadata_and_tensors_are_read) {
  for (const std::uint32_t version : {2u, 3u}) {
    GgufWriter writer = small();
    writer.add("types", std::vector<std::int32_t>{1, -3, 6});
    writer.add("flag", true);
    writer.add("count", std::uint32_t{4'000'000'000});
    const Written written(writer.file(version));
    const GgufFile file(written.path);
    BOOST_CHECK_EQUAL(file.metadata()["general.architecture"], "llama");
    BOOST_CHECK_EQUAL(file.metadata()["rate"].get<double>(), 1e-5);  // not 9.99999975e-06
    BOOST_CHECK_EQUAL(file.metadata()["tokens"].dump(), R"(["a","b c",""])");
    BOOST_CHECK_EQUAL(file.metadata()["types"].dump(), "[1,-3,6]");
    BOOST_CHECK(file.metadata()["types"][0].is_number_unsigned() && file.metadata()["flag"] == true);
    BOOST_CHECK_EQUAL(file.metadata()["count"].get<std::uint64_t>(), 4'000'000'000);
    BOOST_CHECK((file.find("t")->shape == std::vector<std::int64_t>{2, 3}));
    BOOST_CHECK((values_of(file, "t") == std::vector<real>{1, 2, 3, 4, 5, 6}));
    BOOST_CHECK(!file.find("none"));
  }
}

// The tensors begin where the file says that they are aligned.
BOOST_AUTO_TEST_CASE(tensors_are_aligned_as_the_file_says) {
  for (const std::uint32_t alignment : {1u, 8u, 64u, 1u << 12}) {
    GgufWriter writer = small();
    writer.add("general.alignment", alignment);
    const Written written(writer.file(3, alignment));
    BOOST_CHECK((values_of(GgufFile(written.path), "t") == std::vector<real>{1, 2, 3, 4, 5, 6}));
  }
}

// Each type against its formula, with more blocks than are decoded at a time.
BOOST_AUTO_TEST_CASE(numbers_of_each_type) {
  std::mt19937 random(1);
  const auto draw = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  constexpr int kBlocks = 40'000;
  GgufBytes f16, bf16, q8, q4, q41;
  std::vector<std::vector<real>> expected(5);
  for (int block = 0; block < kBlocks; ++block) {
    const float d = static_cast<float>(Half{half((draw(2001) - 1000) / 512.0)});
    const float m = static_cast<float>(Half{half((draw(2001) - 1000) / 64.0)});
    f16.number(half(d));
    expected[0].push_back(d);
    bf16.number(BFloat::nearest(m).bits);
    expected[1].push_back(static_cast<float>(BFloat::nearest(m)));
    q8.number(half(d));
    q4.number(half(d));
    q41.number(half(d)).number(half(m));
    std::vector<int> low, high;
    for (int i = 0; i < 16; ++i) {
      low.push_back(draw(16));
      high.push_back(draw(16));
      q4.number(static_cast<std::uint8_t>(16 * high.back() + low.back()));
      q41.number(static_cast<std::uint8_t>(16 * high.back() + low.back()));
    }
    for (const auto* part : {&low, &high})
      for (const int q : *part) {
        expected[3].push_back(d * static_cast<float>(q - 8));
        expected[4].push_back(d * static_cast<float>(q) + m);
      }
    for (int i = 0; i < 32; ++i) {
      const auto q = static_cast<std::int8_t>(draw(256) - 128);
      q8.number(q);
      expected[2].push_back(d * static_cast<float>(q));
    }
  }
  GgufWriter writer;
  const char* const names[] = {"f16", "bf16", "q8_0", "q4_0", "q4_1"};
  writer.tensor("f16", {kBlocks}, 1, f16.bytes);
  writer.tensor("bf16", {kBlocks}, 30, bf16.bytes);
  writer.tensor("q8_0", {32, kBlocks}, 8, q8.bytes);
  writer.tensor("q4_0", {64, kBlocks / 2}, 2, q4.bytes);
  writer.tensor("q4_1", {32, kBlocks}, 3, q41.bytes);
  const Written written(writer.file());
  const GgufFile file(written.path);
  for (std::size_t i = 0; i < 5; ++i) BOOST_CHECK_MESSAGE(values_of(file, names[i]) == expected[i], names[i]);
}

namespace {

// Bits of a block, which are written one number at a time, wherever they lie.
struct Bits {
  std::string bytes;
  explicit Bits(std::size_t size) : bytes(size, '\0') {}
  void put(std::size_t byte, unsigned shift, unsigned value) {
    bytes[byte] = static_cast<char>(static_cast<unsigned char>(bytes[byte]) | value << shift);
  }
  void put_half(std::size_t byte, std::uint16_t value) {
    put(byte, 0, value & 255);
    put(byte + 1, 0, value >> 8);
  }
};

}  // namespace

// Q5_0 and Q5_1: the fifth bits are in a word of their own.
BOOST_AUTO_TEST_CASE(blocks_of_five_bits) {
  std::mt19937 random(2);
  for (const bool has_minimum : {false, true}) {
    const std::size_t head = has_minimum ? 4 : 2;
    Bits block(head + 20);
    const std::uint16_t d = half(0.375), m = half(-2.5);
    block.put_half(0, d);
    if (has_minimum) block.put_half(2, m);
    std::vector<real> expected;
    for (unsigned i = 0; i < 32; ++i) {
      const unsigned q = random() % 32;
      block.put(head + i / 8, i % 8, q >> 4);
      block.put(head + 4 + i % 16, i / 16 * 4, q & 15);
      expected.push_back(static_cast<real>(has_minimum ? 0.375 * q - 2.5 : 0.375 * (static_cast<int>(q) - 16)));
    }
    GgufWriter writer;
    writer.tensor("t", {32}, has_minimum ? 7 : 6, block.bytes);
    const Written written(writer.file());
    BOOST_CHECK(values_of(GgufFile(written.path), "t") == expected);
  }
}

// Q4_K and Q5_K: eight parts, whose scales and minima of six bits are packed; Q6_K: sixteen, with scales of a byte.
// All numbers here are exact in floats.
BOOST_AUTO_TEST_CASE(blocks_of_256_numbers) {
  std::mt19937 random(3);
  for (const unsigned bits : {4u, 5u}) {
    const std::size_t fifth = 16, halves = bits == 5 ? 48 : 16;
    Bits block(halves + 128);
    block.put_half(0, half(0.25));
    block.put_half(2, half(0.5));
    std::vector<real> expected;
    for (unsigned part = 0; part < 8; ++part) {
      const unsigned scale = random() % 64, minimum = random() % 64;
      if (part < 4) {
        block.put(4 + part, 0, scale);
        block.put(8 + part, 0, minimum);
      } else {
        block.put(8 + part, 0, scale & 15);
        block.put(8 + part, 4, minimum & 15);
        block.put(part, 6, scale >> 4);
        block.put(4 + part, 6, minimum >> 4);
      }
      for (unsigned i = 0; i < 32; ++i) {
        const auto q = static_cast<unsigned>(random() % (1u << bits));
        block.put(halves + part / 2 * 32 + i, part % 2 * 4, q & 15);
        if (bits == 5) block.put(fifth + i, part, q >> 4);
        expected.push_back(static_cast<real>(0.25 * scale * q - 0.5 * minimum));
      }
    }
    GgufWriter writer;
    writer.tensor("t", {256}, bits == 5 ? 13 : 12, block.bytes);
    const Written written(writer.file());
    BOOST_CHECK(values_of(GgufFile(written.path), "t") == expected);
  }
  Bits block(210);
  block.put_half(208, half(0.25));
  std::vector<int> scales;
  for (unsigned i = 0; i < 16; ++i) {
    scales.push_back(static_cast<int>(random() % 256) - 128);
    block.put(192 + i, 0, static_cast<unsigned>(scales.back()) & 255);
  }
  std::vector<real> expected;
  for (unsigned n = 0; n < 256; ++n) {
    const unsigned q = random() % 64, half = n / 128, run = n % 128 / 32, i = n % 32;
    block.put(64 * half + run % 2 * 32 + i, run / 2 * 4, q & 15);
    block.put(128 + 32 * half + i, 2 * run, q >> 4);
    expected.push_back(static_cast<real>(0.25 * scales[n / 16] * (static_cast<int>(q) - 32)));
  }
  GgufWriter writer;
  writer.tensor("t", {256, 2}, 14, block.bytes + block.bytes);
  const Written written(writer.file());
  expected.insert(expected.end(), expected.begin(), expected.begin() + 256);
  BOOST_CHECK(values_of(GgufFile(written.path), "t") == expected);
}

BOOST_AUTO_TEST_CASE(what_is_wrong_is_named) {
  const std::string good = small().file();
  refused("GGML" + good.substr(4), "is no GGUF file");
  refused(small().file(1), "version 1 of GGUF");
  refused("", "truncated");
  refused("GGUF\3", "truncated");
  {
    GgufWriter writer = small();
    writer.add("rate", 2.0F);
    refused(writer.file(), "the metadata rate is there twice");
  }
  {
    GgufWriter writer = small();
    writer.floats("t", {1}, {1});
    refused(writer.file(), "tensor t is there twice");
  }
  {
    GgufWriter writer;
    writer.tensor("k", {256}, 10, std::string(84, '\0'));
    refused(writer.file(),
            "tensor k is of type Q2_K; F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K are read");
  }
  {
    GgufWriter writer;
    writer.tensor("k", {31}, 8, std::string(34, '\0'));
    refused(writer.file(), "tensor k: rows of 31 numbers are not blocks of 32");
  }
  {
    GgufWriter writer;
    writer.tensor("k", {1 << 20, 1 << 20, 1 << 20, 1 << 20}, 0, "");
    refused(writer.file(), "tensor k has more numbers than the file");
  }
  {
    GgufWriter writer;
    writer.tensor("k", {64}, 0, "short");
    refused(writer.file(), "tensor k: 256 bytes");
  }
  for (const std::uint32_t alignment : {0u, 3u, 1u << 21}) {
    GgufWriter writer = small();
    writer.add("general.alignment", alignment);
    refused(writer.file(), "general.alignment is no power of two");
  }
  GgufBytes nested{"GGUF"};
  nested.number(3u).number(std::uint64_t{0}).number(std::uint64_t{1}).text("x").number(9u).number(9u);
  refused(nested.number(std::uint64_t{1}).bytes, "a list of lists");
  GgufBytes long_list{"GGUF"};
  long_list.number(3u).number(std::uint64_t{0}).number(std::uint64_t{1}).text("x").number(9u).number(4u);
  refused(long_list.number(std::uint64_t{1} << 60).bytes, "lists have at most");
  GgufBytes unknown{"GGUF"};
  refused(unknown.number(3u).number(std::uint64_t{0}).number(std::uint64_t{1}).text("x").number(77u).bytes,
          "there is no type 77 of metadata");
  GgufBytes many{"GGUF"};
  refused(many.number(3u).number(std::uint64_t{1} << 40).number(std::uint64_t{0}).bytes, "tensors are more than 65536");
}

BOOST_AUTO_TEST_CASE(tensors_must_be_finite_and_apart) {
  GgufWriter writer;
  writer.floats("t", {2}, {1, INFINITY});
  const Written written(writer.file());
  const GgufFile file(written.path);
  BOOST_CHECK_THROW(values_of(file, "t"), FormatError);

  GgufWriter two;
  two.floats("one", {8}, std::vector<float>(8, 1));
  two.floats("two", {8}, std::vector<float>(8, 1));
  std::string bytes = two.file();
  const std::size_t at = bytes.find("two") + 3 + 4 + 8 + 4;  // of its offset, 32
  BOOST_REQUIRE_EQUAL(static_cast<int>(bytes[at]), 32);
  bytes[at] = 0;
  refused(bytes, "are not between");
}

// Whatever happens to a file's bytes, it is read or refused with a line.
BOOST_AUTO_TEST_CASE(damaged_files_are_read_or_refused) {
  const std::string good = small().file();
  std::mt19937 random(1);
  const auto is_handled = [](const std::string& bytes) {
    const Written written(bytes);
    try {
      const GgufFile file(written.path);
      for (const GgufTensor& tensor : file.tensors()) values_of(file, tensor.name);
    } catch (const FormatError&) {
    }
  };
  constexpr std::size_t kPadding = 8;  // behind the last tensor
  for (std::size_t size = 0; size < good.size() - kPadding; ++size) {
    const Written written(good.substr(0, size));
    BOOST_CHECK_THROW(GgufFile{written.path}, FormatError);
  }
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = good;
    for (int i = 0; i < 1 + round % 3; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    is_handled(bytes);
  }
}

// 32,768 blocks are read at a time.
BOOST_AUTO_TEST_CASE(tensors_of_several_pieces) {
  constexpr std::size_t kPiece = 1 << 15;
  for (const std::size_t count : {kPiece - 1, kPiece, kPiece + 1, 2 * kPiece + 3}) {
    std::vector<float> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 1.0F);
    std::string blocks;  // of Q8_0, whose numbers are 1 and 0s, times a scale
    for (std::size_t block = 0; block < count; ++block) {
      const std::uint16_t scale = half(static_cast<float>(block % 1000));
      blocks.append(reinterpret_cast<const char*>(&scale), sizeof scale).append(1, 1).append(31, 0);
    }
    GgufWriter writer = small();
    writer.floats("f", {count}, numbers);
    writer.tensor("q", {32, count}, 8, blocks);
    const Written written(writer.file());
    const GgufFile file(written.path);
    std::vector<real> floats(count), quantized(32 * count);
    file.read(*file.find("f"), floats);
    file.read(*file.find("q"), quantized);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i)
      wrong += floats[i] != static_cast<real>(i + 1) || quantized[32 * i] != static_cast<real>(i % 1000) ||
               quantized[32 * i + 1] != 0;
    BOOST_CHECK_EQUAL(wrong, 0u);
  }
}

BOOST_AUTO_TEST_CASE(parts_of_tensors_are_read) {
  std::string blocks;
  for (int block = 0; block < 3; ++block) {
    const std::uint16_t scale = half(block + 1);
    blocks.append(reinterpret_cast<const char*>(&scale), sizeof scale);
    for (int i = 0; i < 32; ++i) blocks += static_cast<char>(i);
  }
  GgufWriter writer = small();
  writer.tensor("q", {32, 3}, 8, blocks);
  const Written written(writer.file());
  const GgufFile file(written.path);
  std::vector<real> part(32);
  file.read(*file.find("q"), part, 64);
  for (std::size_t i = 0; i < part.size(); ++i) BOOST_CHECK_EQUAL(part[i], static_cast<real>(3 * i));
  std::vector<real> two(2);
  file.read(*file.find("t"), two, 3);
  BOOST_CHECK(two == (std::vector<real>{4, 5}));
  BOOST_CHECK_THROW(file.read(*file.find("q"), part, 16), ShapeError);
  BOOST_CHECK_THROW(file.read(*file.find("q"), two, 32), ShapeError);
  BOOST_CHECK_THROW(file.read(*file.find("q"), part, 96), ShapeError);
}
