// Checkpoint files: round trips are exact, and broken files are never accepted.
#include <seppo/nn/io/atomic_file.h>
#include <seppo/nn/io/checkpoint.h>
#include <seppo/nn/io/safetensors.h>
#include <seppo/nn/modules/linear.h>

#include "support/memcheck.h"
#include "support/program.h"
#include "support/stored.h"

#include <boost/test/unit_test.hpp>

#include <unistd.h>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

using namespace seppo;
using namespace test;

namespace {

std::string file_of(const std::string& header, std::size_t data) {
  const std::uint64_t n = header.size();
  std::string content(8, '\0');
  std::memcpy(content.data(), &n, 8);
  return content + header + std::string(data, '\1');
}

// Reading must throw FormatError with a one-line message.
void check_refused(const fs::path& path, const std::string& what) {
  try {
    read_stored(path);
    BOOST_ERROR("accepted: " + what);
  } catch (const FormatError& e) {
    BOOST_CHECK_MESSAGE(std::string(e.what()).find_first_of("\n\x7f") == std::string::npos &&
                            std::string(e.what()).find(path.filename()) != std::string::npos,
                        e.what());
  } catch (const std::exception& e) {
    BOOST_ERROR(what + ": another error: " + e.what());
  }
}

void check_refused(const fs::path& path, const std::string& content, const std::string& what) {
  write(path, content);
  check_refused(path, what);
}

const std::string kEntry = R"("w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]})";

struct Model {
  explicit Model(std::uint64_t seed, int width = 3)
      : parameters(seed), a(parameters.root() / "a", width, 4), b(parameters.root() / "b", 4, 2) {}
  Parameters parameters;
  Linear a, b;
};

}  // namespace

BOOST_AUTO_TEST_CASE(parameters_survive_a_round_trip) {
  const Folder folder("safetensors");
  const Model saved(1);
  Model loaded(2);
  save_checkpoint(folder.path / "m", saved.parameters, {{"seppo.config", "{\"x\": \"\xc3\xa4\"}"}});
  load_checkpoint(folder.path / "m", loaded.parameters);
  BOOST_CHECK(std::equal(saved.parameters.values().begin(), saved.parameters.values().end(),
                         loaded.parameters.values().begin()));
  BOOST_CHECK_EQUAL(SafeTensorsFile(folder.path / "m").metadata().at("seppo.config"), "{\"x\": \"\xc3\xa4\"}");
  BOOST_CHECK_EQUAL(folder.files(), 1);  // no temporary file is left
  const std::string first = read(folder.path / "m");
  save_checkpoint(folder.path / "m", saved.parameters, {{"seppo.config", "{\"x\": \"\xc3\xa4\"}"}});
  BOOST_CHECK(first == read(folder.path / "m"));
}

// They need not be in memory together, and the file is the same.
BOOST_AUTO_TEST_CASE(tensors_are_written_one_after_another) {
  const Folder folder("safetensors");
  const std::vector<TensorInfo> tensors{{.name = "b", .dtype = "U8", .shape = {300}},
                                        {.name = "none", .dtype = "F32", .shape = {0, 7}},
                                        {.name = "a", .dtype = "F32", .shape = {2, 25}}};
  const std::size_t sizes[] = {300, 0, 200};
  const auto bytes = [&](std::size_t i) { return std::vector<std::byte>(sizes[i], static_cast<std::byte>(i + 1)); };
  const std::vector<std::vector<std::byte>> all{bytes(0), bytes(1), bytes(2)};
  std::vector<TensorView> views;
  for (std::size_t i = 0; i < 3; ++i) views.push_back({tensors[i].name, tensors[i].dtype, tensors[i].shape, all[i]});
  write_safetensors(folder.path / "together", {{"key", "value"}}, views);
  std::vector<std::byte> last;
  std::size_t asked = 0;
  const auto next = [&](std::size_t i) {
    BOOST_CHECK_EQUAL(i, asked++);
    last = bytes(i);
    return std::span<const std::byte>(last);
  };
  write_safetensors(folder.path / "apart", {{"key", "value"}}, tensors, next);
  BOOST_CHECK_EQUAL(asked, 3);
  const std::string content = read(folder.path / "together");
  BOOST_CHECK(read(folder.path / "apart") == content);
  // What fails on the way, or has another size than its shape, leaves the file.
  const auto fails = [&](std::size_t i) {
    if (i == 2) throw std::runtime_error("made up");
    return std::span<const std::byte>(all[i]);
  };
  BOOST_CHECK_THROW(write_safetensors(folder.path / "apart", {}, tensors, fails), std::runtime_error);
  const auto is_short = [&](std::size_t i) {
    return std::span<const std::byte>(all[i]).first(i == 2 ? 199 : sizes[i]);
  };
  BOOST_CHECK_THROW(write_safetensors(folder.path / "apart", {}, tensors, is_short), ShapeError);
  std::vector<TensorInfo> large = tensors;
  large[0].shape = {std::int64_t{1} << 40, std::int64_t{1} << 40};
  BOOST_CHECK_THROW(write_safetensors(folder.path / "apart", {}, large, next), ArgumentError);
  BOOST_CHECK(read(folder.path / "apart") == content);
  BOOST_CHECK_EQUAL(folder.files(), 2);
}

BOOST_AUTO_TEST_CASE(zero_sizes_and_scalars_are_allowed) {
  const Folder folder("safetensors");
  write_stored(folder.path / "m",
               {{}, {{"scalar", "F32", {}, std::vector<std::byte>(4)}, {"empty", "F64", {0, 3}, {}}}});
  BOOST_CHECK_EQUAL(read_stored(folder.path / "m").tensors.size(), 2);
  write(folder.path / "n", file_of("{}", 0));
  BOOST_CHECK(read_stored(folder.path / "n").tensors.empty());
}

BOOST_AUTO_TEST_CASE(every_truncation_and_extension_is_refused) {
  const Folder folder("safetensors");
  const Model saved(1);
  save_checkpoint(folder.path / "m", saved.parameters, {{"k", "v"}});
  const std::string whole = read(folder.path / "m");
  for (std::size_t size = 0; size < whole.size(); ++size)
    check_refused(folder.path / "t", whole.substr(0, size), "truncated to " + std::to_string(size));
  for (std::size_t more = 1; more <= 64; ++more)
    check_refused(folder.path / "t", whole + std::string(more, ' '), "extended by " + std::to_string(more));
}

// The digest covers every byte of the file, itself and the padding included.
BOOST_AUTO_TEST_CASE(every_flipped_bit_is_refused) {
  const Folder folder("safetensors");
  const Model saved(1);
  save_checkpoint(folder.path / "m", saved.parameters, {{"seppo.config", "{}"}, {"k", "v"}});
  const std::string content = read(folder.path / "m");
  std::fstream file(folder.path / "m", std::ios::in | std::ios::out | std::ios::binary);
  const auto put = [&](std::size_t at, int byte) {  // in place: a disk waits when a file is written anew
    file.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(byte)).flush();
  };
  for (std::size_t bit = 0; bit < 8 * content.size(); bit += test::is_in_memcheck() ? 11u : 1u) {
    put(bit / 8, content[bit / 8] ^ (1 << bit % 8));
    check_refused(folder.path / "m", "bit " + std::to_string(bit));
    put(bit / 8, content[bit / 8]);
  }
  BOOST_CHECK_EQUAL(read_stored(folder.path / "m").tensors.size(), 4);
}

// Messages locate errors by tensor and byte, whatever the size of the header.
BOOST_AUTO_TEST_CASE(a_refusal_says_where) {
  const Folder folder("safetensors");
  const auto message = [&](const std::string& header) -> std::string {
    write(folder.path / "h", file_of(header, 0));
    try {
      const SafeTensorsFile file(folder.path / "h");
    } catch (const FormatError& e) {
      return e.what();
    }
    return "accepted";
  };
  std::string header = "{";
  for (int i = 0; i < 65'536; ++i) {
    const std::string name = "tensor_number_" + std::to_string(i);
    header += "\"" + name + R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},)";
  }
  std::string good = header;
  good.back() = '}';
  BOOST_CHECK_EQUAL(message(good), "accepted");
  const std::string last = header + R"("last":{"dtype":"F32","shape":[0],"data_offsets":[0,1.5]}})";
  BOOST_CHECK_MESSAGE(
      message(last).find("tensor last: data_offsets: 1.5 is not an integer") != std::string::npos &&
          message(last).find("header byte " + std::to_string(8 + last.find("1.5]") + 4)) != std::string::npos,
      message(last));
  const std::string more = header + R"("more":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"even_more":1})";
  BOOST_CHECK_MESSAGE(message(more).find("more than 65536 tensors") != std::string::npos, message(more));
  std::string notes = R"({"__metadata__":{)";
  for (int i = 0; i < 65'537; ++i) notes += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":\"\"";
  notes += "}}";
  BOOST_CHECK_MESSAGE(message(notes).find("more than 65536 metadata") != std::string::npos, message(notes));
}

BOOST_AUTO_TEST_CASE(malformed_headers_are_refused) {
  const Folder folder("safetensors");
  const auto entry = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    // The name is too long for std::string's internal buffer, so that destroying it twice is a double free.
    return R"({"a_tensor_with_a_long_name":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" +
           offsets + "}}";
  };
  std::vector<std::pair<std::string, std::size_t>> headers = {
      {"[]", 0},
      {"null", 0},
      {"\"x\"", 0},
      {"\xef\xbb\xbf{}", 0},
      {" {}", 0},
      {"{}x", 0},
      {"{}{}", 0},
      {"{'w':1}", 0},
      {"{}//", 0},
      {"{\"w\":1,}", 0},
      {"{\"w", 0},
      {std::string("{}\0", 3), 0},
      {"{\"a\nb\":1}", 0},
      {"{\"\xc0\x80\":1}", 0},
      {R"({"\ud800":1})", 0},
      {R"({"w":[]})", 0},
      {R"({"w":{}})", 0},
      {R"({"w":1})", 0},
      {R"({"w":null})", 0},
      {R"({"w":"x"})", 0},
      {R"({"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16,16]}})", 16},
      {R"({"w":{"dtype":"F32","shape":[4],"data_offsets":[0]}})", 16},
      {R"({"w":{"shape":[4],"data_offsets":[0,16]}})", 16},
      {R"({"w":{"dtype":"F32","data_offsets":[0,4]}})", 4},
      {R"({"w":{"dtype":"F32","shape":[4]}})", 16},
      {R"({"w":{"data_offsets":[0,16]}})", 16},
      {std::string(100'000, '['), 0},
      {"{" + kEntry + "," + kEntry + "}", 16},
      {"{" + kEntry + R"(,"\u0077":{"dtype":"F32","shape":[0],"data_offsets":[16,16]}})", 16},
      {R"({"w":{"shape":[2,2],"data_offsets":[0,16]}})", 16},
      {R"({"w":{"dtype":"F32","data_offsets":[0,16]}})", 16},
      {R"({"w":{"dtype":"F32","shape":[2,2]}})", 16},
      {R"({"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16],"x":1}})", 16},
      {R"({"w":{"dtype":"F32","dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})", 16},
      {R"({"__metadata__":{"a":1}})", 0},
      {R"({"__metadata__":{"a":{}}})", 0},
      {R"({"__metadata__":[]})", 0},
      {R"({"__metadata__":1})", 0},
      {R"({"w":null})", 0},
      {R"({"__metadata__":{"seppo.format":"1","seppo.digest":")" + std::string(31, '0') + "\x7f\"}}", 0},
      {R"({"":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})", 4},
      {R"({"a\u0000b":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})", 4},
      {"{\"" + std::string(600, 'n') + R"(":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})", 4}};
  for (const char* dtype : {"\"F31\"", "\"f32\"", "\"F16\"", "1", "null", "[]"})
    headers.emplace_back(entry(dtype, "[2,2]", "[0,16]"), 16);
  for (const char* shape :
       {"[-2,-2]", "[2.0,2]", "[2e0,2]", "[\"2\",2]", "[02,2]", "[4.0]", "4", "{}", "[9007199254740993]",
        "[18446744073709551616]", "[NaN]", "[Infinity]", "[1,1,1,1,1,1,1,2,2]", "[2,3]", "[65536,65536,65536,65536,0]"})
    headers.emplace_back(entry("\"F32\"", shape, "[0,16]"), 16);
  for (const char* offsets :
       {"[0]", "[0,16,16]", "[16,0]", "[-1,15]", "[0,12]", "[0.0,16]", "[4,20]", "[0,1e400]", "[0,1.5]", "[0,\"16\"]",
        "[null,16]", "[0,true]", "[0,1e2]", "[[],16]", "[0,9007199254740993]", "{}", "[0,18446744073709551615]"})
    headers.emplace_back(entry("\"F32\"", "[2,2]", offsets), 16);
  // sizes whose product wraps around
  headers.emplace_back(entry("\"F32\"", "[65536,65536,65536]", "[0,0]"), 0);
  headers.emplace_back(entry("\"F32\"", "[4194305,4194305,211106198978564]", "[0,16]"), 16);
  headers.emplace_back(entry("\"F32\"", "[3,6148914691236517206]", "[0,8]"), 8);
  headers.emplace_back(entry("\"F32\"", "[2305843009213693953,8]", "[0,32]"), 32);
  // overlap and hole
  headers.emplace_back(
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
      12);
  headers.emplace_back(
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[12,20]}})",
      20);
  for (const auto& [header, data] : headers)
    check_refused(folder.path / "h", file_of(header, data), header.substr(0, 80));

  for (const std::uint64_t n : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 63, ~std::uint64_t{0},
                                ~std::uint64_t{7}, std::uint64_t{100'000'001}}) {
    std::string content(8, '\0');
    std::memcpy(content.data(), &n, 8);
    check_refused(folder.path / "h", content + "{}", "header length " + std::to_string(n));
  }
  write(folder.path / "none", file_of(R"({"__metadata__":null,)" + kEntry + "}", 16));
  BOOST_CHECK(SafeTensorsFile(folder.path / "none").metadata().empty());
  write(folder.path / "good", file_of("{" + kEntry + "}   ", 16));
  BOOST_CHECK_EQUAL(read_stored(folder.path / "good").tensors[0].shape[1], 2);
}

BOOST_AUTO_TEST_CASE(a_model_that_does_not_fit_is_refused_and_nothing_changes) {
  const Folder folder("safetensors");
  save_checkpoint(folder.path / "m", Model(1).parameters, {});
  Model wider(2, 5);
  const std::vector<real> before(wider.parameters.values().begin(), wider.parameters.values().end());
  const auto message = [&](Parameters& parameters) -> std::string {
    try {
      load_checkpoint(folder.path / "m", parameters);
    } catch (const FormatError& e) {
      return e.what();
    }
    return "accepted";
  };
  BOOST_CHECK_NE(message(wider.parameters).find("a.weight is [4,3] in the file, [4,5] in the model"),
                 std::string::npos);
  BOOST_CHECK(std::equal(before.begin(), before.end(), wider.parameters.values().begin()));
  Parameters other(3);
  const Linear c(other.root() / "c", 3, 4);
  BOOST_CHECK_NE(message(other).find("the file has no c.weight"), std::string::npos);
  BOOST_CHECK_NE(message(other).find("the model has no a.weight"), std::string::npos);
  // Even if only the last tensor is wrong, in one number or one bit.
  Model same(4);
  const std::vector<real> own(same.parameters.values().begin(), same.parameters.values().end());
  std::string damaged = read(folder.path / "m");
  Stored content = read_stored(folder.path / "m");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(content.tensors.back().bytes.data(), &nan, 4);
  write_stored(folder.path / "m", content);
  BOOST_CHECK_NE(message(same.parameters).find("not finite"), std::string::npos);
  BOOST_CHECK(std::ranges::equal(own, same.parameters.values()));
  damaged.back() ^= 1;
  write(folder.path / "m", damaged);
  BOOST_CHECK_NE(message(same.parameters).find("damaged"), std::string::npos);
  BOOST_CHECK(std::ranges::equal(own, same.parameters.values()));
}

BOOST_AUTO_TEST_CASE(what_is_not_finite_is_not_saved) {
  const Folder folder("safetensors");
  Model model(1);
  save_checkpoint(folder.path / "m", model.parameters, {});
  const std::string before = read(folder.path / "m");
  std::vector<real> moments(model.parameters.values().size());
  const OptimizerBlock block[] = {{"adam.m", moments}};
  const std::size_t last = model.parameters.entries().back().offset + model.parameters.entries().back().size() - 1;
  constexpr real kInfinity = std::numeric_limits<real>::infinity();
  for (const real bad : {kInfinity, -kInfinity, std::numeric_limits<real>::quiet_NaN()})
    for (const std::size_t at : {std::size_t{0}, last})
      for (real* const place : {&model.parameters.edit()[at], &moments[at]}) {
        const real good = std::exchange(*place, bad);
        for (const char* file : {"m", "new"}) {
          BOOST_CHECK_THROW(save_checkpoint(folder.path / file, model.parameters, {}, block), NumericError);
          if (place != &moments[at])
            BOOST_CHECK_THROW(save_weights(folder.path / file, model.parameters), NumericError);
        }
        *place = good;
      }
  BOOST_CHECK_EQUAL(folder.files(), 1);
  BOOST_CHECK_THROW(save_weights(folder.path / "no" / "folder", Model(1).parameters), FileError);
  BOOST_CHECK(before == read(folder.path / "m"));
}

BOOST_AUTO_TEST_CASE(a_replaced_file_keeps_its_mode_and_its_links) {
  const fs::path folder = fs::temp_directory_path() / ("seppo-links-" + std::to_string(::getpid()));
  fs::create_directories(folder / "inner");
  const auto write = [&](const char* name, const std::string& text) {
    replace_atomically(folder / name, [&](File& file) { file.write(text.data(), text.size()); });
  };
  const auto read = [&](const char* name) {
    std::ifstream file(folder / name);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  write("inner/f", "1");
  fs::permissions(folder / "inner/f", fs::perms(0640));
  fs::create_symlink("inner/f", folder / "link");
  write("link", "2");
  BOOST_CHECK(fs::is_symlink(folder / "link") && read("inner/f") == "2");
  BOOST_CHECK(fs::status(folder / "inner/f").permissions() == fs::perms(0640));
  fs::create_symlink("none", folder / "dangling");
  fs::create_symlink("/dev/null", folder / "device");
  for (const char* name : {"dangling", "device"}) {
    write(name, "3");
    BOOST_CHECK(!fs::is_symlink(folder / name) && read(name) == "3");
  }
  BOOST_CHECK_EQUAL(std::distance(fs::directory_iterator(folder / "inner"), fs::directory_iterator()), 1);
  fs::remove_all(folder);
}

BOOST_AUTO_TEST_CASE(paths_that_cannot_be_files) {
  const Folder folder("safetensors");
  for (const char* path : {"missing", "."}) BOOST_CHECK_THROW(read_stored(folder.path / path), FileError);
  BOOST_CHECK_THROW(read_stored("/dev/zero"), FileError);
  BOOST_CHECK_THROW(save_checkpoint(folder.path / "no" / "such" / "folder", Model(1).parameters, {}), FileError);
  fs::create_directories(folder.path / "taken");
  BOOST_CHECK_THROW(save_checkpoint(folder.path / "taken", Model(1).parameters, {}), FileError);
  BOOST_CHECK_EQUAL(folder.files(), 1);
}
