// Files: reads return the content, errors name the file, and files are replaced atomically.
#include <seppo/autograd/core/check.h>
#include <seppo/nn/io/atomic_file.h>
#include <seppo/nn/io/digest.h>
#include <seppo/nn/io/json.h>

#include <boost/test/unit_test.hpp>

#include <sys/syscall.h>
#include <unistd.h>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

using namespace seppo;
namespace fs = std::filesystem;

namespace {

// While set, each call reads or writes at most a few bytes, and every third is interrupted by a signal.
bool is_stingy = false;

bool is_interrupted() {
  static int calls = 0;
  if (!is_stingy || ++calls % 3 != 0) return false;
  errno = EINTR;
  return true;
}
std::size_t granted(std::size_t size) { return is_stingy ? std::min<std::size_t>(size, 5) : size; }

}  // namespace

// Override the C library's functions of the same names.
extern "C" {
ssize_t write(int fd, const void* data, size_t size) {
  return is_interrupted() ? -1 : ::syscall(SYS_write, fd, data, granted(size));
}
ssize_t pread(int fd, void* data, size_t size, off_t offset) {
  return is_interrupted() ? -1 : ::syscall(SYS_pread64, fd, data, granted(size), offset);
}
}

namespace {

struct Folder {
  fs::path path = fs::temp_directory_path() / ("seppo-atomic-file-" + std::to_string(::getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
};

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Expects f to throw an E whose one-line message names the file.
template <class E, class F>
void check_named(const fs::path& path, const F& f) {
  BOOST_CHECK_EXCEPTION(f(), E, [&](const E& e) {
    const std::string text = e.what();
    return text.find(path.filename()) != text.npos && text.find('\n') == text.npos && text.size() < 300;
  });
}

}  // namespace

BOOST_AUTO_TEST_CASE(bytes_are_read_in_order_and_from_places) {
  const Folder folder;
  const fs::path path = folder.path / "f";
  std::ofstream(path) << "0123456789";
  File file(path, File::Open::reading);
  BOOST_CHECK_EQUAL(file.size(), 10);
  std::string text(8, '-');
  BOOST_CHECK_EQUAL(file.read_some(text.data(), 7), 7);
  BOOST_CHECK_EQUAL(text, "0123456-");
  file.read_at(1, text.data(), 2);  // does not move the read position
  BOOST_CHECK_EQUAL(text, "1223456-");
  BOOST_CHECK_EQUAL(file.read_some(text.data(), 7), 3);
  BOOST_CHECK_EQUAL(text, "7893456-");
  BOOST_CHECK_EQUAL(file.read_some(text.data(), 7), 0);
  file.read_at(0, text.data(), 8);
  BOOST_CHECK_EQUAL(text, "01234567");
  file.read_at(10, text.data(), 0);
  check_named<FormatError>(path, [&] { file.read_at(3, text.data(), 8); });
  check_named<FormatError>(path, [&] { file.read_at(10, text.data(), 1); });
}

// System calls may transfer only a part, or be interrupted by a signal.
BOOST_AUTO_TEST_CASE(what_is_done_in_part_is_taken_up_again) {
  const Folder folder;
  const fs::path path = folder.path / "f";
  std::string text;
  for (int i = 0; i < 100; ++i) text += std::to_string(i) + ' ';
  std::string read(text.size() - 3, '-');
  is_stingy = true;
  replace_atomically(path, [&](File& f) { f.write(text.data(), text.size()); });
  File(path, File::Open::reading).read_at(3, read.data(), read.size());
  is_stingy = false;
  BOOST_CHECK_EQUAL(content_of(path), text);
  BOOST_CHECK_EQUAL(read, text.substr(3));
}

BOOST_AUTO_TEST_CASE(failures_are_named) {
  const Folder folder;
  const fs::path path = folder.path / "f", missing = folder.path / "missing";
  std::ofstream(path) << "x";
  constexpr auto reading = File::Open::reading, creating = File::Open::creating;
  check_named<FileError>(missing, [&] { File(missing, reading); });
  check_named<FileError>(missing, [&] { File(missing, File::Open::folder); });
  check_named<FileError>(folder.path, [&] { File(folder.path, reading); });
  check_named<FileError>(path, [&] { File(path, creating); });
  fs::create_symlink(path, folder.path / "link");
  check_named<FileError>(folder.path / "link", [&] { File(folder.path / "link", creating); });
  check_named<FileError>("full", [&] {
    File full("/dev/full", reading);  // a device
  });
  File only_read(path, reading);
  check_named<FileError>(path, [&] { only_read.write("y", 1); });
  BOOST_CHECK_EQUAL(content_of(path), "x");
  char byte = 0;
  File no_file(folder.path, File::Open::folder);  // has no bytes to read
  check_named<FileError>(folder.path, [&] { no_file.read_some(&byte, 1); });
  check_named<FileError>(folder.path, [&] { no_file.read_at(0, &byte, 1); });
  only_read.close();
  check_named<FileError>(path, [&] { only_read.size(); });
  check_named<FileError>(path, [&] { only_read.flush(); });
  check_named<FileError>(path, [&] { only_read.close(); });
  check_named<FileError>(missing, [&] { replace_atomically(missing / "f", [](File& f) { f.write("y", 1); }); });
}

BOOST_AUTO_TEST_CASE(a_file_is_replaced_whole_or_not_at_all) {
  const Folder folder;
  const fs::path path = folder.path / "f";
  for (const std::string& text : {std::string("old"), std::string(100'000, 'n')}) {
    replace_atomically(path, [&](File& f) {
      f.write(text.data(), 1);
      BOOST_CHECK(fs::exists(path) == (text != "old"));  // the previous file
      f.write(text.data() + 1, text.size() - 1);
    });
    BOOST_CHECK(content_of(path) == text);
  }
  BOOST_CHECK_THROW(replace_atomically(path,
                                       [](File& f) {
                                         f.write("half", 4);
                                         throw std::runtime_error("mine");
                                       }),
                    std::runtime_error);
  BOOST_CHECK(content_of(path) == std::string(100'000, 'n'));
  BOOST_CHECK_EQUAL(std::distance(fs::directory_iterator(folder.path), fs::directory_iterator()), 1);
}

// The digest that `xxhsum -H2` prints, however the bytes are divided.
BOOST_AUTO_TEST_CASE(a_copy_has_all_bytes) {
  const Folder folder;
  const fs::path from = folder.path / "from", to = folder.path / "to";
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, (std::size_t{1} << 20) + 3}) {
    std::string content(size, 0);
    for (std::size_t i = 0; i < size; ++i) content[i] = static_cast<char>(i * i >> 3);
    std::ofstream(from, std::ios::binary) << content;
    copy_atomically(from, to);
    BOOST_CHECK(content_of(to) == content);
  }
  fs::remove(from);
  BOOST_CHECK_THROW(copy_atomically(from, to), FileError);
  BOOST_CHECK_EQUAL(fs::file_size(to), (std::size_t{1} << 20) + 3);  // what was there stays
}

BOOST_AUTO_TEST_CASE(digests_tell_data_apart) {
  const auto digest = [](const std::string& text, std::size_t piece) {
    Digest d;
    for (std::size_t at = 0; at < text.size(); at += piece) d.add(text.data() + at, std::min(piece, text.size() - at));
    return d.hex();
  };
  BOOST_CHECK_EQUAL(Digest().hex(), "99aa06d3014798d86001c324468d497f");  // of no bytes, from XXH3's documentation
  std::string text(1000, 'a');
  const std::string whole = digest(text, 1000);
  BOOST_CHECK_EQUAL(whole.size(), 32);
  for (const std::size_t piece : {1u, 7u, 256u, 999u}) BOOST_CHECK_EQUAL(digest(text, piece), whole);
  for (const std::size_t at : {0u, 500u, 999u}) {
    text[at] = 'b';
    BOOST_CHECK_NE(digest(text, 1000), whole);
    text[at] = 'a';
  }
  BOOST_CHECK_NE(digest(text.substr(1), 1000), whole);
}

BOOST_AUTO_TEST_CASE(json_is_refused_with_its_place) {
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      parse_json(text, "NAME");
    } catch (const FormatError& e) {
      return e.what();
    }
    return "accepted";
  };
  BOOST_CHECK_EQUAL(parse_json(R"( {"a": [1, "b", null]} )", "NAME").dump(), R"({"a":[1,"b",null]})");
  BOOST_CHECK_EQUAL(refusal(std::string(16, '[') + std::string(16, ']')), "accepted");
  for (const auto& [text, place] :
       std::vector<std::pair<std::string, std::string>>{{"{\"a\":\n  1,,}", "NAME:2:5: "},
                                                        {"[1, 2\n,\n x]", "NAME:3:2: "},
                                                        {"{\"a\": 1, \"a\": 2}", "NAME:1:12: "},
                                                        {std::string("[1,\n\0", 5), "NAME:2:1: "},
                                                        {"[\"\xff\"]", "NAME:1:3: "},
                                                        {std::string(17, '['), "NAME:1:17: "},
                                                        {"1 2", "NAME:1:3: "},
                                                        {"", "NAME:1:1: "}}) {
    const std::string found = refusal(text);
    BOOST_CHECK_MESSAGE(found.starts_with(place) && found.size() > place.size(), text << ": " << found);
    BOOST_CHECK_MESSAGE(found.find('\n') == found.npos, found);
  }
}

// Events arrive in order, each with the offset behind it; exceptions that refuse() throws propagate.
BOOST_AUTO_TEST_CASE(json_comes_in_events) {
  struct Mine {
    std::string why;
    std::size_t at;
  };
  struct Log : JsonEvents {
    std::string seen;
    void note(const std::string& what) { seen += what + "@" + std::to_string(offset()) + " "; }
    void value(nlohmann::json&& v) override { note(v.dump()); }
    [[noreturn]] void refuse(const std::string& why) override { throw Mine{why, offset()}; }
    bool start_object(std::size_t) override { return note("{"), true; }
    bool key(string_t& k) override { return note(k), true; }
    bool end_object() override { return note("}"), true; }
    bool start_array(std::size_t) override { return note("["), true; }
    bool end_array() override { return note("]"), true; }
  };
  Log log;
  log.read(R"({"k": ["x", true]})");
  BOOST_CHECK_EQUAL(log.seen, "{@1 k@4 [@7 \"x\"@10 true@16 ]@17 }@18 ");
  const std::vector<std::pair<std::string, std::size_t>> broken{{"[1, ]", 5}, {"[1", 3}, {"[1] 2", 5}};
  for (const auto& [text, place] : broken) try {
      Log().read(text);
      BOOST_ERROR("accepted: " + text);
    } catch (const Mine& m) {
      BOOST_CHECK_MESSAGE(!m.why.empty() && m.at == place, text << ": " << m.why << " at " << m.at);
    }
}

// Also what others may do with it.
BOOST_AUTO_TEST_CASE(a_file_keeps_its_mode) {
  const Folder folder;
  const fs::path file = folder.path / "f";
  for (const unsigned mode : {0644U, 0600U, 0664U, 0755U, 0607U}) {
    std::ofstream(file) << "1";
    fs::permissions(file, fs::perms(mode));
    replace_atomically(file, [](File& made) { made.write("2", 1); });
    BOOST_CHECK_EQUAL(content_of(file), "2");
    BOOST_CHECK_EQUAL(static_cast<unsigned>(fs::status(file).permissions()), mode);
  }
}
