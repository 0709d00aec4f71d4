// Folders that are replaced whole or not at all: what stays, and what is said if it cannot be done.
#include <seppo/autograd/core/check.h>
#include <seppo/nn/io/replace_folder.h>
#include <seppo/nn/io/text_file.h>

#include <boost/test/unit_test.hpp>

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cerrno>
#include <cstdarg>
#include <stdexcept>
#include <string>

namespace fs = std::filesystem;
using namespace seppo;

namespace {

int refusal = 0;  // what a file system answers that cannot exchange two names; 0: this one's answer

}  // namespace

#if defined(__GLIBC__)  // others declare it otherwise
// Stands before the C library's.
extern "C" long syscall(long number, ...) noexcept {
  if (number == SYS_renameat2 && refusal != 0) {
    errno = refusal;
    return -1;
  }
  long given[6];
  std::va_list arguments;
  va_start(arguments, number);
  for (long& one : given) one = va_arg(arguments, long);
  va_end(arguments);
  using Call = long (*)(long, ...);
  static const auto call = reinterpret_cast<Call>(::dlsym(RTLD_NEXT, "syscall"));
  return call(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}
#endif

namespace {

struct Refuse {
  explicit Refuse(int error) { refusal = error; }
  ~Refuse() { refusal = 0; }
};

// A folder of its own, in which `old` has a model.bin and notes.txt.
struct Workplace {
  fs::path root = fs::temp_directory_path() / ("seppo-replace-" + std::to_string(::getpid()));
  fs::path folder = root / "old";

  Workplace() {
    fs::remove_all(root);
    fs::create_directories(folder);
    write_text(folder / "model.bin", "1");
    write_text(folder / "notes.txt", "mine");
  }
  ~Workplace() { fs::remove_all(root); }
};

bool is_model(const std::string& name) { return name.ends_with(".bin"); }

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_not_replaced_stays) {
  const Workplace place;
  write_text(place.folder / "more.bin", "of the old one");
  fs::create_directories(place.folder / "figures");
  write_text(place.folder / "figures/1.svg", "drawn");
  fs::create_symlink("figures", place.folder / "link");
  replace_folder(
      place.folder, [](const fs::path& made) { write_text(made / "model.bin", "2"); }, is_model);
  BOOST_CHECK_EQUAL(read_text(place.folder / "model.bin"), "2");
  BOOST_CHECK_EQUAL(read_text(place.folder / "figures/1.svg"), "drawn");
  BOOST_CHECK_EQUAL(fs::read_symlink(place.folder / "link"), "figures");
  BOOST_CHECK_EQUAL(read_text(place.folder / "notes.txt"), "mine");
  BOOST_CHECK(!fs::exists(place.folder / "more.bin"));
  BOOST_CHECK(!fs::exists(place.root / "old.partial"));
}

BOOST_AUTO_TEST_CASE(a_new_folder_is_made) {
  const Workplace place;
  replace_folder(
      place.root / "a/b", [](const fs::path& made) { write_text(made / "x", "1"); }, is_model);
  BOOST_CHECK_EQUAL(read_text(place.root / "a/b/x"), "1");
}

BOOST_AUTO_TEST_CASE(a_write_that_throws_leaves_the_old_folder) {
  const Workplace place;
  const auto fails = [](const fs::path& made) {
    write_text(made / "model.bin", "2");
    throw std::runtime_error("no more");
  };
  BOOST_CHECK_THROW(replace_folder(place.folder, fails, is_model), std::runtime_error);
  BOOST_CHECK_EQUAL(read_text(place.folder / "model.bin"), "1");
  BOOST_CHECK(!fs::exists(place.root / "old.partial"));
}

BOOST_AUTO_TEST_CASE(a_file_is_no_folder) {
  const Workplace place;
  const fs::path file = place.folder / "notes.txt";
  const auto nothing = [](const fs::path&) {};
  const auto names_the_file = [&](const FileError& e) { return std::string(e.what()).find(file) != std::string::npos; };
  BOOST_CHECK_EXCEPTION(replace_folder(file, nothing, is_model), FileError, names_the_file);
  BOOST_CHECK_THROW(write_text(file / "x", "1"), FileError);
  BOOST_CHECK_EQUAL(read_text(file), "mine");
}

#if defined(__GLIBC__)
// Network file systems and others cannot exchange names: two renamings have the same effect.
BOOST_AUTO_TEST_CASE(file_systems_that_cannot_exchange_names) {
  const auto write = [](const fs::path& made) { write_text(made / "model.bin", "2"); };
  for (const int error : {EINVAL, ENOSYS, ENOTSUP}) BOOST_TEST_CONTEXT(error) {
      const Workplace place;
      const Refuse refuse(error);
      fs::create_directories(place.root / "old.old");  // somebody's
      write_text(place.root / "old.old/x", "kept");
      replace_folder(place.folder, write, is_model);
      BOOST_CHECK_EQUAL(read_text(place.folder / "model.bin"), "2");
      BOOST_CHECK_EQUAL(read_text(place.folder / "notes.txt"), "mine");
      BOOST_CHECK(!fs::exists(place.root / "old.partial.old") && !fs::exists(place.root / "old.partial"));
      BOOST_CHECK_EQUAL(read_text(place.root / "old.old/x"), "kept");
    }
  const Workplace place;
  const Refuse refuse(EIO);
  BOOST_CHECK_THROW(replace_folder(place.folder, write, is_model), FileError);
  BOOST_CHECK_EQUAL(read_text(place.folder / "model.bin"), "1");
}
#endif

// A process that was killed while the folder had another name leaves nothing behind but that name.
BOOST_AUTO_TEST_CASE(a_folder_that_was_left_under_another_name) {
  for (const char* slash : {"", "/"}) {
    const Workplace place;
    fs::rename(place.folder, place.root / "old.partial.old");
    replace_folder(
        place.folder.string() + slash, [](const fs::path& made) { write_text(made / "model.bin", "2"); }, is_model);
    BOOST_CHECK_EQUAL(read_text(place.folder / "model.bin"), "2");
    BOOST_CHECK_EQUAL(read_text(place.folder / "notes.txt"), "mine");
    BOOST_CHECK(!fs::exists(place.root / "old.partial.old"));
  }
}

// One that was killed later had not yet moved what is not replaced.
BOOST_AUTO_TEST_CASE(files_that_were_left_under_the_other_name) {
  const Workplace place;
  fs::copy(place.folder, place.root / "old.partial.old");
  fs::remove(place.folder / "notes.txt");
  write_text(place.root / "old.partial.old/more.bin", "of the old one");
  const auto write = [](const fs::path& made) { write_text(made / "model.bin", "3"); };
  const auto fails = [](const fs::path&) { throw std::runtime_error("no more"); };
  BOOST_CHECK_THROW(replace_folder(place.folder, fails, is_model), std::runtime_error);
  BOOST_CHECK_EQUAL(read_text(place.folder / "notes.txt"), "mine");
  BOOST_CHECK(!fs::exists(place.root / "old.partial.old"));
  replace_folder(place.folder, write, is_model);
  BOOST_CHECK_EQUAL(read_text(place.folder / "model.bin"), "3");
  BOOST_CHECK_EQUAL(read_text(place.folder / "notes.txt"), "mine");
  BOOST_CHECK(!fs::exists(place.folder / "more.bin"));
}
