// Damage to safetensors files has a name: the tensor whose bytes changed, or the header.
#include <seppo/nn/io/checkpoint.h>
#include <seppo/nn/io/digest.h>
#include <seppo/nn/io/safetensors.h>
#include <seppo/nn/parameters.h>

#include "support/errors.h"
#include "support/program.h"
#include "support/stored.h"

#include <boost/test/unit_test.hpp>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

using namespace seppo;
using namespace test;

namespace {

using Lines = std::vector<std::string>;

std::vector<std::byte> bytes(std::size_t n, int value) { return std::vector<std::byte>(n, std::byte(value)); }

// Three tensors with numbers, the second larger than a piece that is read at a time, and two without.
Stored content() {
  return {{{"key", "value"}},
          {{"none", "F32", {0}, {}},
           {"a", "U8", {5}, bytes(5, 1)},
           {"b\xc2\x9b", "F32", {600, 500}, bytes(1'200'000, 2)},
           {"empty", "F32", {3, 0}, {}},
           {"c", "F16", {2}, bytes(4, 3)}}};
}

Lines damage_of(const fs::path& path, const std::string& content) {
  write(path, content);
  return SafeTensorsFile(path).damage();
}

std::string flipped(std::string content, std::size_t at) {
  content[at] = static_cast<char>(content[at] ^ 4);
  return content;
}

// The file as earlier versions wrote it: one digest, of all of its bytes, with zeros in its place.
std::string with_one_digest(const std::string& tensor, const std::string& data) {
  const std::string zeros(32, '0');
  std::string header = R"({"__metadata__":{"seppo.digest":")" + zeros + R"(","seppo.format":"1"},"w":)" + tensor + "}";
  const std::uint64_t size = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &size, 8);
  file += header + data;
  Digest digest;
  digest.add(file.data(), file.size());
  return file.replace(file.find(zeros), zeros.size(), digest.hex());
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_tensor_that_changed_is_named) {
  const Folder folder("damage");
  const fs::path path = folder.path / "f";
  write_stored(path, content());
  const std::string whole = read(path);
  const std::size_t data = whole.size() - 5 - 1'200'000 - 4;
  BOOST_CHECK(damage_of(path, whole).empty());
  BOOST_CHECK(damage_of(path, flipped(whole, data)) == Lines{"tensor a"});
  BOOST_CHECK(damage_of(path, flipped(whole, data + 4)) == Lines{"tensor a"});
  for (const std::size_t at : {data + 5, data + 5 + (1 << 20), data + 5 + 1'199'999})
    BOOST_CHECK(damage_of(path, flipped(whole, at)) == Lines{"tensor b\\xc2\\x9b"});
  BOOST_CHECK(damage_of(path, flipped(whole, whole.size() - 1)) == Lines{"tensor c"});
  const std::string several = flipped(flipped(whole, data + 1), whole.size() - 2);
  BOOST_CHECK((damage_of(path, several) == Lines{"tensor a", "tensor c"}));
  BOOST_CHECK(damage_of(path, flipped(whole, whole.find("value"))) == Lines{"the header"});
  check_error<FormatError>([&] { SafeTensorsFile(path).verify(); }, {"f: damaged: the header"});
  write(path, several);
  check_error<FormatError>([&] { SafeTensorsFile(path).verify(); }, {"f: damaged: tensor a, tensor c"});
  // Two tensors of equal size that changed places.
  write_stored(path, {{}, {{"x", "U8", {3}, bytes(3, 1)}, {"y", "U8", {3}, bytes(3, 2)}}});
  std::string swapped = read(path);
  std::rotate(swapped.end() - 6, swapped.end() - 3, swapped.end());
  BOOST_CHECK((damage_of(path, swapped) == Lines{"tensor x", "tensor y"}));
}

// Data larger than a buffer, which ends in the middle of one.
BOOST_AUTO_TEST_CASE(damage_anywhere_in_a_large_file_is_found) {
  const Folder folder("damage");
  const fs::path path = folder.path / "f";
  write_stored(path, {{}, {{"w", "U8", {3'000'001}, bytes(3'000'001, 0)}}});
  const std::string whole = read(path);
  for (const std::size_t at : {whole.size() - 1, whole.size() - 3'000'001, whole.size() / 2}) {
    BOOST_CHECK(damage_of(path, flipped(whole, at)) == Lines{"tensor w"});
    check_error<FormatError>([&] { read_stored(path); }, {"f: ", "damaged: tensor w"});
  }
}

// A wrong digest accuses its tensor, and the header that it is in, and no other tensor.
BOOST_AUTO_TEST_CASE(a_damaged_digest_is_damage_to_the_header) {
  const Folder folder("damage");
  const fs::path path = folder.path / "f";
  write_stored(path, content());
  const std::string whole = read(path);
  const std::size_t digits = whole.find(R"("seppo.digest":")") + 16;
  const auto with_digit = [&](std::size_t at) {
    std::string changed = whole;
    changed[at] = whole[at] == '7' ? '8' : '7';
    return damage_of(path, changed);
  };
  BOOST_CHECK(with_digit(digits) == Lines{"the header"});
  BOOST_CHECK((with_digit(digits + 2 * 32) == Lines{"the header", "tensor a"}));
  BOOST_CHECK((with_digit(digits + 6 * 32 - 1) == Lines{"the header", "tensor c"}));
  for (const char* wrong : {"g", "\"", "A"}) {
    write(path, std::string(whole).replace(digits + 40, 1, wrong));
    BOOST_CHECK_THROW(SafeTensorsFile(path).verify(), FormatError);
  }
}

BOOST_AUTO_TEST_CASE(many_damaged_tensors_take_one_line) {
  const Folder folder("damage");
  Stored many;
  for (int i = 10; i < 20; ++i) many.tensors.push_back({"t" + std::to_string(i), "U8", {1}, bytes(1, 0)});
  write_stored(folder.path / "f", many);
  std::string content = read(folder.path / "f");
  content.replace(content.size() - 10, 10, 10, '\1');
  write(folder.path / "f", content);
  check_error<FormatError>([&] { SafeTensorsFile(folder.path / "f").verify(); },
                           {"damaged: tensor t10, tensor t11", "tensor t17 and 2 more"});
  write(folder.path / "f", content.replace(content.size() - 1, 1, 1, '\0'));
  check_error<FormatError>([&] { SafeTensorsFile(folder.path / "f").verify(); }, {"tensor t17 and 1 more"});
  write(folder.path / "f", content.replace(content.size() - 2, 1, 1, '\0'));
  check_error<FormatError>([&] { SafeTensorsFile(folder.path / "f").verify(); }, {"tensor t16, tensor t17"});
}

BOOST_AUTO_TEST_CASE(a_cut_file_names_the_tensor_it_ends_in) {
  const Folder folder("damage");
  const fs::path path = folder.path / "f";
  write_stored(path, content());
  const std::string whole = read(path);
  const auto refusal = [&](const std::string& content) {
    write(path, content);
    return message([&] { SafeTensorsFile{path}; });
  };
  BOOST_CHECK(contains(refusal(whole.substr(0, whole.size() - 1)), "truncated, in tensor c"));
  BOOST_CHECK(contains(refusal(whole.substr(0, whole.size() - 4)), "truncated, in tensor c"));
  BOOST_CHECK(contains(refusal(whole.substr(0, whole.size() - 5)), "truncated, in tensor b\\xc2\\x9b"));
  BOOST_CHECK(contains(refusal(whole + "x"), "bytes appended"));
}

// Earlier files have one digest of everything: they load as ever, and damage is noticed, without a name.
BOOST_AUTO_TEST_CASE(earlier_files_are_checked_as_a_whole) {
  const Folder folder("damage");
  const fs::path path = folder.path / "f";
  const std::string whole =
      with_one_digest(R"({"dtype":"U8","shape":[2000000],"data_offsets":[0,2000000]})", std::string(2'000'000, 'x'));
  BOOST_CHECK(damage_of(path, whole).empty());
  BOOST_CHECK_EQUAL(read_stored(path).tensors.size(), 1u);
  for (const std::size_t at : {std::size_t{1}, whole.size() / 2, std::size_t{1'500'000}}) {
    BOOST_CHECK(damage_of(path, flipped(whole, whole.size() - at)) ==
                Lines{"the file, which has no digest of each tensor"});
    check_error<FormatError>([&] { SafeTensorsFile(path).verify(); },
                             {"damaged: the file, which has no digest of each tensor"});
  }
  // Each format has its number of digits.
  std::string wrong = whole;
  wrong[wrong.find(R"("seppo.format":"1")") + 16] = '2';
  write(path, wrong);
  check_error<FormatError>([&] { SafeTensorsFile{path}; }, {"its seppo.digest is not 64 digits"});
  write_stored(path, content());
  wrong = read(path);
  wrong[wrong.find(R"("seppo.format":"2")") + 16] = '1';
  write(path, wrong);
  check_error<FormatError>([&] { SafeTensorsFile{path}; }, {"its seppo.digest is not 32 digits"});
}

// Types that seppo has no numbers for leave the other tensors of their file alone.
BOOST_AUTO_TEST_CASE(a_type_without_numbers_concerns_its_tensor_only) {
  const Folder folder("damage");
  const fs::path path = folder.path / "f";
  struct Type {
    const char* name;
    std::size_t bytes;  // of 8 elements
  };
  const std::vector<float> values{1, 2, 3};
  const auto numbers = std::as_bytes(std::span(values));
  for (const Type& type :
       {Type{"F4", 4}, Type{"F6_E2M3", 6}, Type{"F6_E3M2", 6}, Type{"F8_E8M0", 8}, Type{"F8_E4M3", 8},
        Type{"F8_E5M2", 8}, Type{"F8_E4M3FNUZ", 8}, Type{"F8_E5M2FNUZ", 8}, Type{"C64", 64}}) {
    write_stored(
        path,
        {{}, {{"odd", type.name, {2, 4}, bytes(type.bytes, 5)}, {"w", "F32", {3}, {numbers.begin(), numbers.end()}}}});
    const SafeTensorsFile file(path);
    file.verify();
    BOOST_CHECK_EQUAL(file.tensors()[0].bytes(), type.bytes);
    Parameters parameters(1);
    parameters.root().parameter("w", {3}, init_zeros());
    const WeightOptions others{.skip = [](const std::string& name) { return name == "odd"; }};
    BOOST_CHECK(load_weights(path, parameters, others).empty());
    BOOST_CHECK(std::ranges::equal(parameters.values().first(3), std::vector<real>{1, 2, 3}));
    Parameters both(1);
    both.root().parameter("w", {3}, init_zeros());
    both.root().parameter("odd", {2, 4}, init_zeros());
    check_error<FormatError>([&] { load_weights(path, both); },
                             {"odd is " + std::string(type.name) + ", not F64, F32, F16 or BF16"});
    const auto left_out = load_weights(path, both, {.strict = false});
    BOOST_CHECK_EQUAL(left_out.size(), 1u);
    BOOST_CHECK_EQUAL(both.values()[0], 1);
  }
}
