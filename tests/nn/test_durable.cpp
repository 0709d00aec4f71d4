// A saved file is on the disk under its name before saving returns: its bytes are flushed before the rename, its folder
// afterwards; and whichever call fails, either the old file or the new one is there, intact.
#include <seppo/nn/io/atomic_file.h>
#include <seppo/nn/io/checkpoint.h>
#include <seppo/nn/train/trainer.h>

#include "support/recorded_files.h"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <regex>

using namespace seppo;
using test::FileEvent;
namespace fs = std::filesystem;

namespace {

struct Folder {
  fs::path path = fs::canonical(fs::temp_directory_path()) / ("seppo-durable-" + std::to_string(::getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
};

std::string content(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string text_of(const std::vector<FileEvent>& events) {
  std::string text;
  for (const FileEvent& e : events) text += e.what + " " + e.path.string() + " " + e.to.string() + "\n";
  return text;
}

// Expects writes to a temporary file beside `target`, its fsync, its rename and the folder's fsync, and nothing else.
void check_order(const std::vector<FileEvent>& events, const fs::path& target) {
  const std::string all = text_of(events);
  BOOST_REQUIRE_MESSAGE(events.size() >= 4, all);
  const fs::path temporary = events[0].path;
  BOOST_REQUIRE_MESSAGE(temporary.string().starts_with(target.string()), all);
  BOOST_CHECK_MESSAGE(
      temporary.parent_path() == target.parent_path() &&
          std::regex_match(temporary.string().substr(target.string().size()), std::regex("\\.tmp-[0-9a-f]{16}")),
      all);
  const std::size_t writes = events.size() - 3;
  for (std::size_t i = 0; i < writes; ++i)
    BOOST_CHECK_MESSAGE(events[i].what == "write" && events[i].path == temporary, all);
  BOOST_CHECK_MESSAGE(events[writes].what == "fsync" && events[writes].path == temporary, all);
  BOOST_CHECK_MESSAGE(
      events[writes + 1].what == "rename" && events[writes + 1].path == temporary && events[writes + 1].to == target,
      all);
  BOOST_CHECK_MESSAGE(events[writes + 2].what == "fsync" && events[writes + 2].path == target.parent_path(), all);
}

// All functions that write files. Each call writes different content.
struct Saver {
  std::string name;
  std::function<void(const fs::path&)> save;
};

struct Savers {
  Parameters parameters{1};
  Tensor w = parameters.root().parameter("w", {40, 30}, init_normal(1));
  Trainer trainer{parameters, {.ema_decay = 0.5}};
  int calls = 0;

  std::vector<Saver> all() {
    const auto change = [this] { w.data()[0] = static_cast<real>(++calls); };
    return {{"replace_atomically",
             [=, this](const fs::path& file) {
               change();
               replace_atomically(file, [&](File& f) {
                 for (int i = 0; i < 3; ++i) f.write(w.values().data(), 400);
               });
             }},
            {"save_checkpoint",
             [=, this](const fs::path& file) {
               change(), save_checkpoint(file, parameters, {{"a", "b"}});
             }},
            {"Trainer::save", [=, this](const fs::path& file) { change(), trainer.save(file); }},
            {"save_weights", [=, this](const fs::path& file) { change(), save_weights(file, parameters); }}};
  }
};

// Calls f(saver, file, events, at) for each call `at` of saving over a file that is there.
template <class F>
void at_each_call(const Folder& folder, const F& f) {
  Savers savers;
  for (const Saver& saver : savers.all()) {
    const fs::path file = folder.path / saver.name;
    saver.save(file);
    const std::vector<FileEvent> events = test::record_files([&] { saver.save(file); });
    for (std::size_t at = 0; at < events.size(); ++at) f(saver, file, events, at);
    fs::remove(file);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(bytes_are_flushed_before_the_rename_and_the_folder_after) {
  const Folder folder;
  Savers savers;
  for (const Saver& saver : savers.all()) {
    const fs::path file = folder.path / saver.name;
    for (int repeat = 0; repeat < 2; ++repeat)  // creates the file, then replaces it
      BOOST_TEST_CONTEXT(saver.name) check_order(test::record_files([&] { saver.save(file); }), file);
    // Through a symbolic link, the file itself is replaced, in its own folder.
    fs::create_directories(folder.path / "links");
    const fs::path link = folder.path / "links" / saver.name;
    fs::create_symlink(file, link);
    BOOST_TEST_CONTEXT(saver.name << ", link") check_order(test::record_files([&] { saver.save(link); }), file);
    BOOST_CHECK(fs::is_symlink(link));
  }
  // A file name without a folder.
  const fs::path before = fs::current_path();
  fs::current_path(folder.path);
  const auto events = test::record_files([] { replace_atomically("plain", [](File& f) { f.write("x", 1); }); });
  fs::current_path(before);
  BOOST_CHECK(events.back().what == "fsync" && events.back().path == folder.path);
}

// A file that is not flushed is not renamed. After the rename, the new file remains even if flushing the folder fails,
// which is reported.
BOOST_AUTO_TEST_CASE(whichever_call_fails_a_whole_file_is_there) {
  const Folder folder;
  at_each_call(folder, [&](const Saver& saver, const fs::path& file, const auto& events, std::size_t at) {
    const std::string old = content(file);
    const std::string what = saver.name + ": " + events[at].what + " " + std::to_string(at);
    BOOST_CHECK_THROW(test::record_files([&] { saver.save(file); }, static_cast<int>(at)), FileError);
    const bool is_renamed = at + 1 == events.size();
    BOOST_CHECK_MESSAGE((content(file) == old) != is_renamed, what);
    BOOST_CHECK_MESSAGE(content(file).size() == old.size(), what);
    for (const FileEvent& e : test::recorded::events)
      BOOST_CHECK_MESSAGE(e.what != "rename" || at + 2 >= events.size(), what);
    BOOST_CHECK_EQUAL(std::distance(fs::directory_iterator(folder.path), {}), 1);  // no partial file
  });
}

// A signal that interrupts writing or flushing is no failure.
BOOST_AUTO_TEST_CASE(interrupted_calls_are_repeated) {
  const Folder folder;
  at_each_call(folder, [](const Saver& saver, const fs::path& file, const auto& events, std::size_t at) {
    if (events[at].what == "rename") return;  // is never interrupted
    const std::string old = content(file);
    BOOST_CHECK_NO_THROW(test::record_files([&] { saver.save(file); }, static_cast<int>(at), EINTR));
    BOOST_CHECK_MESSAGE(content(file) != old, saver.name << ": " << events[at].what << " " << at);
    BOOST_CHECK_EQUAL(content(file).size(), old.size());
  });
}
