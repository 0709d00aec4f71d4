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
    writer.tensor("k", {256}, 12, std::string(144, '\0'));
    refused(writer.file(), "tensor k is of type Q4_K; F32, F16, BF16, Q8_0, Q4_0 and Q4_1 are read");
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
