// Files made to be costly: reading takes time and memory in proportion to the file; false headers are refused early.
#include <seppo/models/language_model.h>
#include <seppo/nn/io/model_file.h>
#include <seppo/nn/io/safetensors.h>

#include "support/errors.h"
#include "support/program.h"
#include "support/stored.h"

#include <boost/test/unit_test.hpp>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

using namespace seppo;
using test::contains;
using test::Folder;
using test::message;
using test::write;
namespace fs = std::filesystem;

namespace {

std::string length_of(std::uint64_t n) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &n, 8);
  return bytes;
}

std::string file_of(const std::string& header, std::size_t data = 0) {
  return length_of(header.size()) + header + std::string(data, '\0');
}

std::string refusal(const fs::path& path) {
  try {
    const SafeTensorsFile file(path);
    return "accepted";
  } catch (const FormatError& e) {
    return e.what();
  }
}

// The peak memory of f in megabytes, measured in a process of its own.
long megabytes_of(const std::function<void()>& f) {
  const auto peak = [] {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("VmHWM:")) return std::stol(line.substr(6)) / 1024;
    return 0L;
  };
  const pid_t child = ::fork();
  if (child == 0) {
    const long before = peak();
    f();
    ::_exit(static_cast<int>(std::min(peak() - before, 255L)));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  BOOST_CHECK(WIFEXITED(status));
  return WEXITSTATUS(status);
}

double seconds_of(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_model_is_loaded_without_a_second_copy_of_its_values) {
  const Folder folder("safetensors-hostile");
  const fs::path path = folder.path / "m";
  const LanguageModelConfig config{
      .vocabulary = 16, .layer = {.d_model = 1024, .n_heads = 4, .d_ff = 4096}, .n_layers = 1, .max_length = 16};
  {
    Parameters parameters(1);
    const LanguageModel model(parameters.root(), config);
    save_model(path, parameters, model);
  }
  const auto size = static_cast<long>(fs::file_size(path) >> 20);
  const auto load = [&] { load_model<LanguageModel>(path); };
  BOOST_CHECK_GT(size, 40);
  BOOST_CHECK_LT(megabytes_of(load), size * 5 / 4);
}

BOOST_AUTO_TEST_CASE(headers_that_lie) {
  const Folder folder("safetensors-hostile");
  const fs::path path = folder.path / "f";
  const std::string one = R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  const auto with = [&](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"a_name_of_more_than_fifteen":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
           offsets + "}}";
  };
  const std::vector<std::pair<std::string, std::string>> cases{
      {length_of(1) + "{", "announce a header of 1 bytes"},
      {length_of(1) + "\xff", "announce a header of 1 bytes"},
      {length_of(2 + 1) + "{}", "announce"},
      {length_of(~std::uint64_t{7}) + "{}", "announce"},
      {length_of(__builtin_bswap64(2)) + "{}", "announce"},
      {file_of("{" + std::string(1 << 24, ' ') + "}"), "announce"},
      {file_of(repeated("[{\"\":", 50'000)), "not a JSON object"},
      {file_of(repeated("{\"shape\":", 50'000)), "an object is out of place"},
      {file_of(std::string("{\0}\0", 4)), "a NUL"},
      {file_of("{\"w\":" + one + "," + R"("w":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})", 16),
       "this name is there twice"},
      {file_of(R"({"__metadata__":{},"__metadata__":{}})"), "this name is there twice"},
      {file_of("{\"__metadata__\":" + one + "}", 8), "tensor __metadata__: a list is out of place"},
      {file_of("{\"__metadata__\":{\"a\":\"1\",\"a\":\"1\"}}"), "this metadata is there twice"},
      {file_of("{\"" + std::string(1 << 20, 'n') + "\":" + one + "}", 8), "longer than 512 bytes"},
      {file_of(with("F32", "[" + repeated("1,", 9'999) + "1]", "[0,4]"), 4), "shape has too many numbers"},
      {file_of(with("F32", "[" + repeated("1,", 999'999) + "1]", "[0,4]"), 4), "shape has too many numbers"},
      {file_of(with("F4", "[3]", "[0,2]"), 2), "the 12 bits of its shape are no whole bytes"},
      {file_of(with("F6_E2M3", "[2]", "[0,2]"), 2), "the 12 bits of its shape are no whole bytes"},
      {file_of(with("F6_E3M2", "[3,3]", "[0,7]"), 7), "the 54 bits of its shape are no whole bytes"},
      {file_of(with("F6_E3M2", "[4]", "[0,4]"), 4), "do not hold the 3 bytes of its shape"},
      {file_of(with("F4", "[134217728,134217728]", "[0,0]")), "do not hold the 9007199254740992 bytes of its shape"},
      {file_of(with("F4", "[134217728,134217729]", "[0,0]")), "too many elements"},
      {file_of(with("F4", "[4611686018427387905]", "[0,0]")), "is not an integer in 0..2^53"},
      {file_of(with("F6_E2M3", "[4503599627370496,4]", "[0,0]")), "too many elements"},
      {file_of(with("C64", "[33554432,33554433]", "[0,0]")), "too many elements"},
      {file_of(with("F5", "[8]", "[0,5]"), 5), "is not one of the format's"},
      {file_of(with("F8_E4M3FN", "[2]", "[0,2]"), 2), "is not one of the format's"},
      {file_of(with("C128", "[1]", "[0,16]"), 16), "is not one of the format's"},
      {file_of(with("F32", "[1e3]", "[0,4000]"), 4000), "is not an integer"},
      {file_of(with("F32", "[8589934592,8589934592]", "[0,0]")), "too many elements"},
      {file_of(with("F32", "[65536,65536,65536,65536]", "[0,0]")), "too many elements"},
      {file_of(with("F32", "[65536,65536,65536,65536,0]", "[0,0]")), "too many elements"},
      {file_of(with("F32", "[2]", "[1000,1008]"), 8), "begins at byte 1000"},
      {file_of("{\"w\":" + one + "}", 8) + "PK\3\4", "bytes appended"}};
  for (const auto& [content, part] : cases) {
    write(path, content);
    const std::string text = refusal(path);
    BOOST_CHECK_MESSAGE(text.find(part) != text.npos && text.size() < 1'000 && text.find('\n') == text.npos,
                        part << " is not in: " << text.substr(0, 1'000));
  }
  std::string wide;  // UTF-16
  for (const char c : std::string("{}")) wide += {c, '\0'};
  write(path, file_of(wide));
  BOOST_CHECK_NE(refusal(path), "accepted");
  const std::string largest((1 << 24) - one.size() - 6, ' ');  // a header of 16 MiB
  for (const std::string& padding : {std::string(" "), std::string("\n"), std::string("\r\n\t"), largest}) {
    write(path, file_of("{\"w\":" + one + "}" + padding, 8));
    BOOST_CHECK_EQUAL(refusal(path), "accepted");
  }
}

BOOST_AUTO_TEST_CASE(a_newer_format_is_refused) {
  const Folder folder("safetensors-hostile");
  const fs::path path = folder.path / "f";
  test::write_stored(path, {});
  std::ifstream stream(path, std::ios::binary);
  std::string content{std::istreambuf_iterator<char>(stream), {}};
  const std::size_t at = content.find(R"("seppo.format":"2")");
  content[at + 16] = '3';
  write(path, content);
  BOOST_CHECK_NE(refusal(path).find("its seppo.format is another than 1 and 2"), std::string::npos);
}

// A reader of quadratic complexity would take minutes for these.
BOOST_AUTO_TEST_CASE(time_and_memory_are_those_of_the_header) {
  const Folder folder("safetensors-hostile");
  const fs::path path = folder.path / "f";
  const std::string shared = R"(":{"dtype":"F32","shape":[200,200],"data_offsets":[0,160000]},)";
  std::string many = "{", lists = R"({"w":)", metadata = R"({"__metadata__":{)";
  for (int i = 0; i < 100'000; ++i) many += '"' + std::to_string(i) + shared;
  for (int i = 0; i < 500'000; ++i) metadata += '"' + std::to_string(i) + "\":\"\",";
  lists += "[" + repeated("[],", 5'000'000) + "[]]}";
  many.back() = '}';
  metadata.replace(metadata.size() - 1, 1, "}}");
  struct Case {
    const std::string& header;
    const char* why;
    long megabytes;
  };
  for (const Case& c : {Case{many, "more than 65536 tensors", 80}, Case{lists, "out of place", 40},
                        Case{metadata, "more than 65536 metadata", 80}}) {
    write(path, file_of(c.header));
    BOOST_CHECK_LT(seconds_of([&] {
                     const std::string text = refusal(path);
                     BOOST_CHECK_MESSAGE(text.find(c.why) != text.npos, text);
                   }),
                   20);
    if (!test::takes_memory_itself()) BOOST_CHECK_LT(megabytes_of([&] { refusal(path); }), c.megabytes);
  }
}

// The header is consistent, but none of the data occupies disk space: data that does not fit the model is not read.
BOOST_AUTO_TEST_CASE(a_model_of_another_shape_is_not_read) {
  const Folder folder("safetensors-hostile");
  const fs::path path = folder.path / "f";
  constexpr std::uint64_t kBytes = std::uint64_t{10'000'000'000};
  write(path, file_of(R"({"w":{"dtype":"F32","shape":[2500000000],"data_offsets":[0,10000000000]}})"));
  std::error_code error;
  fs::resize_file(path, fs::file_size(path) + kBytes, error);
  if (error) {
    std::cout << "skipped: a file of 10 GB: " << error.message() << "\n";
    return;
  }
  Parameters parameters(1);
  parameters.root().parameter("w", {4}, init_zeros());
  const double seconds = seconds_of([&] {
    BOOST_CHECK_THROW(load_checkpoint(path, parameters), FormatError);
    BOOST_CHECK_THROW(load_weights(path, parameters), FormatError);
    BOOST_CHECK_THROW(load_model<LanguageModel>(path), FormatError);
    BOOST_CHECK_EQUAL(load_weights(path, parameters, {.strict = false}).size(), 1);
  });
  BOOST_CHECK_LT(seconds, 5);
}

BOOST_AUTO_TEST_CASE(what_is_no_file_is_refused_by_kind) {
  const Folder folder("safetensors-hostile");
  const auto message = [&](const fs::path& path) -> std::string {
    try {
      const SafeTensorsFile file(path);
    } catch (const FileError& e) {
      return e.what();
    }
    return "accepted";
  };
  const auto check = [&](const fs::path& path, const std::string& part) {
    const std::string text = message(path);
    BOOST_CHECK_MESSAGE(text.find(part) != text.npos && text.find('\n') == text.npos && text.size() < 400, text);
  };
  BOOST_REQUIRE_EQUAL(::mkfifo((folder.path / "pipe").c_str(), 0600), 0);
  check(folder.path / "pipe", "is a pipe, not a file");
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, (folder.path / "socket").c_str(), sizeof address.sun_path - 1);
  BOOST_REQUIRE_EQUAL(::bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  check(folder.path / "socket", "cannot open");
  ::close(descriptor);
  check(folder.path, "is a folder, not a file");
  check("/dev/zero", "is a device, not a file");
  check("/dev/full", "is a device, not a file");
  fs::create_symlink("loop", folder.path / "loop");
  check(folder.path / "loop", "cannot open");
  fs::create_symlink("nowhere", folder.path / "dangling");
  check(folder.path / "dangling", "cannot open");
  check(folder.path / std::string(5'000, 'n'), "cannot open");
  check(folder.path / "a\nb\xff\x1b[31m", "a\\x0ab\\xff\\x1b[31m");
  write(folder.path / "empty", "");
  BOOST_CHECK_NE(refusal(folder.path / "empty").find("0 bytes are too short"), std::string::npos);
}

// A position table that no tensor in the file justifies; it would take 64 MB.
BOOST_AUTO_TEST_CASE(a_small_file_cannot_claim_a_large_table) {
  const Folder folder("safetensors-hostile");
  const fs::path path = folder.path / "f";
  for (const Positions positions : {Positions::sinusoid, Positions::cosinusoid, Positions::rotary}) {
    Parameters parameters(1);
    const LanguageModelConfig config{.vocabulary = 1,
                                     .layer = {.d_model = 16, .n_heads = 1, .d_ff = 1, .norm = Norm::post},
                                     .n_layers = 0,
                                     .positions = positions,
                                     .max_length = 1 << 20};
    save_model(path, parameters, LanguageModel(parameters.root(), config));
    BOOST_CHECK_LT(fs::file_size(path), 1'000);
    const auto use = [&] {
      const auto saved = load_model<LanguageModel>(path);
      const Inference inference;
      saved.model(Ragged{std::vector<int>(100, 0), {0, 100}});
    };
    use();
    if (!test::takes_memory_itself()) BOOST_CHECK_LT(megabytes_of(use), 8);
  }
}

// A file may have 65536 tensors and as many entries of metadata, not one more, whether it is read or written; errors
// in its header are reported in ASCII.
BOOST_AUTO_TEST_CASE(safetensors_have_a_limit_of_tensors_and_metadata) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("seppo-print-" + std::to_string(::getpid()));
  const std::vector<std::byte> byte(1);
  std::vector<std::string> names;
  for (int i = 0; i <= 65536; ++i) names.push_back(std::to_string(i));
  const std::vector<std::int64_t> shape{1};
  std::vector<TensorView> views;
  for (const std::string& name : names) views.push_back({name, "U8", shape, byte});
  BOOST_CHECK(
      contains(message([&] { write_safetensors(file, {}, views); }), "more than 65536 tensors; nothing was written"));
  views.pop_back();
  BOOST_CHECK_EQUAL(message([&] { write_safetensors(file, {}, views); }), "no error");
  BOOST_CHECK_EQUAL(SafeTensorsFile(file).tensors().size(), 65536u);
  std::map<std::string, std::string> metadata;  // the file adds two entries of its own
  for (int i = 0; i < 65534; ++i) metadata[std::to_string(i)] = "x";
  BOOST_CHECK_EQUAL(message([&] { write_safetensors(file, metadata, {}); }), "no error");
  BOOST_CHECK_EQUAL(SafeTensorsFile(file).metadata().size(), 65536u);
  metadata["more"] = "x";
  BOOST_CHECK(contains(message([&] { write_safetensors(file, metadata, {}); }),
                       "more than 65536 metadata; nothing was written"));
  BOOST_CHECK_EQUAL(SafeTensorsFile(file).metadata().size(), 65536u);
  const std::string header = R"({"w":{"dtype":"U8","shape":"é","data_offsets":[0,1]}})";
  const std::uint64_t size = header.size();
  std::ofstream(file, std::ios::binary).write(reinterpret_cast<const char*>(&size), 8) << header << "x";
  const std::string text = message([&] { SafeTensorsFile{file}; });
  BOOST_CHECK_MESSAGE(contains(text, "00e9") && std::ranges::none_of(text, [](char c) { return c < 0; }), text);
  std::filesystem::remove(file);
}

// Whatever the reader would refuse leaves a good file alone.
BOOST_AUTO_TEST_CASE(what_cannot_be_read_is_not_written) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("seppo-print-" + std::to_string(::getpid()));
  const std::vector<std::byte> bytes(12);
  const auto refusal = [&](std::map<std::string, std::string> metadata, const TensorView& tensor) {
    try {
      write_safetensors(file, std::move(metadata), {&tensor, 1});
    } catch (const ArgumentError& e) {
      return std::string(e.what());
    }
    return std::string("written");
  };
  const TensorView good{"a", "F32", {3}, bytes};
  BOOST_CHECK_EQUAL(refusal({{"a", "é"}}, good), "written");
  for (const TensorView& bad :
       {TensorView{"a", "F32", {4}, bytes}, TensorView{"a", "F32", {-1, -3}, bytes}, TensorView{"a", "F33", {3}, bytes},
        TensorView{"a", "f32", {3}, bytes}, TensorView{"a", "U8", {12, 1, 1, 1, 1, 1, 1, 1, 1}, bytes},
        TensorView{"a", "U8", {std::int64_t{1} << 62, 4}, bytes}})
    BOOST_CHECK_MESSAGE(contains(refusal({}, bad), "nothing was written"), refusal({}, bad));
  const std::string is_no_text = "\xc3";
  BOOST_CHECK(contains(refusal({{"a", is_no_text}}, good), "nothing was written"));
  BOOST_CHECK(contains(refusal({{is_no_text, "a"}}, good), "nothing was written"));
  BOOST_CHECK(contains(refusal({{"a", std::string(std::size_t{16} << 20, 'x')}}, good), "nothing was written"));
  const SafeTensorsFile kept(file);
  kept.verify();
  BOOST_CHECK_EQUAL(kept.metadata().at("a"), "é");
  std::filesystem::remove(file);
}

// The product of a shape's sizes is at most 2^53, beyond which JSON's numbers are not exact.
BOOST_AUTO_TEST_CASE(shapes_have_a_limit) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("seppo-print-" + std::to_string(::getpid()));
  const auto refusal = [&](const std::string& shape) {
    const std::string header = R"({"w":{"dtype":"U8","shape":)" + shape + R"(,"data_offsets":[0,0]}})";
    const std::uint64_t size = header.size();
    std::ofstream(file, std::ios::binary).write(reinterpret_cast<const char*>(&size), 8) << header;
    return message([&] { SafeTensorsFile{file}; });
  };
  BOOST_CHECK(contains(refusal("[134217728,67108864]"), "do not hold the 9007199254740992 bytes of its shape"));
  BOOST_CHECK(contains(refusal("[134217728,67108865]"), "the shape has too many elements"));
  BOOST_CHECK(contains(refusal("[9007199254740993]"), "9007199254740993"));
  std::filesystem::remove(file);
}
