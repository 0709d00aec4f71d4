// Checks paths by the type and the permissions of the file.
#include "app/paths.h"

#include "app/command_line.h"

#include <fmt/format.h>

#include <unistd.h>

namespace examples {

namespace fs = std::filesystem;
using seppo::printable_path;

namespace {

const char* kind_of(fs::file_type type) {
  switch (type) {
    case fs::file_type::directory:
      return "a folder";
    case fs::file_type::fifo:
      return "a pipe";
    case fs::file_type::socket:
      return "a socket";
    case fs::file_type::block:
    case fs::file_type::character:
      return "a device";
    default:
      return nullptr;
  }
}

// The beginning of a message about an option, or about a word of the command line.
std::string of(const std::string& option) { return option.empty() ? "" : "--" + option + ": "; }

// Throws UsageError if the path cannot be examined, for example because it is too long.
fs::file_type type_of(const std::string& option, const fs::path& path) {
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  if (type == fs::file_type::none)
    throw UsageError(fmt::format("{}'{}': {}", of(option), printable_path(path), error.message()));
  return type;
}

bool is_writable_folder(const fs::path& folder) {
  std::error_code error;
  return fs::is_directory(folder, error) && ::access(folder.c_str(), W_OK | X_OK) == 0;
}

[[noreturn]] void refuse(const std::string& option, const fs::path& path, const char* what) {
  throw UsageError(fmt::format("{}'{}' is {}, not a file", of(option), printable_path(path), what));
}

}  // namespace

void check_input(const std::string& option, const fs::path& path) {
  const fs::file_type type = type_of(option, path);
  if (type == fs::file_type::not_found)
    throw UsageError(fmt::format("{}there is no file '{}'", of(option), printable_path(path)));
  if (const char* kind = kind_of(type)) refuse(option, path, kind);
}

void check_not_special(const std::string& option, const fs::path& path) {
  const fs::file_type type = type_of(option, path);
  if (type != fs::file_type::directory && kind_of(type)) refuse(option, path, kind_of(type));
}

void check_output(const std::string& option, const fs::path& path) {
  if (const char* kind = kind_of(type_of(option, path))) refuse(option, path, kind);
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (!path.has_filename() || !is_writable_folder(folder))
    throw UsageError(fmt::format("--{}: cannot write to '{}'", option, printable_path(path)));
}

void check_distinct(const std::string& option, const fs::path& output, const fs::path& input) {
  std::error_code error;
  if (fs::equivalent(output, input, error))
    throw UsageError(fmt::format("--{}: '{}' is also an input, and would be lost", option, printable_path(output)));
}

void prepare_folder(const std::string& option, const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder, error) && !fs::is_directory(folder, error))
    throw UsageError(fmt::format("--{}: '{}' is not a folder", option, printable_path(folder)));
  fs::create_directories(folder, error);
  if (!is_writable_folder(folder))
    throw UsageError(fmt::format("--{}: cannot write to folder '{}'", option, printable_path(folder)));
}

}  // namespace examples
