// Two folders exchange their names in one step, which Linux can do, and the old one is removed.
#include "llm/folder_writer.h"

#include "app/paths.h"
#include "app/text_file.h"
#include "llm/tokenizer_folder.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/printable.h>

#include <fcntl.h>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <regex>
#include <string>

namespace llm {

namespace fs = std::filesystem;
using seppo::check;
using seppo::FileError;
using seppo::printable_path;

namespace {

bool is_weight_file(const std::string& name) {
  static const std::regex pattern(R"(model(-\d+-of-\d+)?\.safetensors(\.index\.json)?)");
  return std::regex_match(name, pattern);
}

bool is_model_file(const std::string& name) {
  return name == "config.json" || is_weight_file(name) || is_tokenizer_file(name);
}

void rename_or_fail(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  check<FileError>(!error, printable_path(to), ": cannot be replaced: ", error.message());
}

// Removes it with all that is in it, if it is there.
void remove_folder(const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  check<FileError>(!error, printable_path(folder), ": cannot be removed: ", error.message());
}

// `made` becomes `folder`, and the folder that was there becomes `made`.
void exchange(const fs::path& made, const fs::path& folder) {
  if (::renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, folder.c_str(), RENAME_EXCHANGE) == 0) return;
  const bool is_unknown = errno == EINVAL || errno == ENOSYS;  // to this file system: three names in turn
  check<FileError>(is_unknown, printable_path(folder), ": cannot be replaced: ", std::strerror(errno));
  fs::path old = folder;
  old += ".old";
  rename_or_fail(folder, old);
  rename_or_fail(made, folder);
  rename_or_fail(old, made);
}

}  // namespace

bool has_model(const fs::path& folder) {
  std::error_code error;  // there may be no such folder
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (name == "config.json" || is_weight_file(name)) return true;
  }
  return false;
}

void write_folder(const fs::path& given, const HfConfig& config, const seppo::Parameters& parameters,
                  const fs::path& tokenizer) {
  examples::prepare_folder("out", given);
  const fs::path folder = fs::canonical(given);  // the target of a link, which stays
  fs::path made = folder;
  made += ".partial";
  remove_folder(made);
  examples::prepare_folder("out", made);
  try {
    write_tokenizer(made, tokenizer, config);
    seppo::save_weights(made / "model.safetensors", parameters, weights_of(config));
    examples::write_file_atomically(made / "config.json", to_json(config).dump(2) + "\n");
    exchange(made, folder);
  } catch (...) {
    std::error_code error;
    fs::remove_all(made, error);
    throw;
  }
  for (const auto& entry : fs::directory_iterator(made)) {
    const fs::path kept = folder / entry.path().filename();
    if (!is_model_file(entry.path().filename()) && !fs::exists(kept)) rename_or_fail(entry.path(), kept);
  }
  remove_folder(made);
  seppo::File(folder.parent_path(), seppo::File::Open::folder).flush();
}

}  // namespace llm
