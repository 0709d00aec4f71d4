// RunFolder: numbered files, and the order in which they are written and removed.
#include "run_folder.h"

#include "../../autograd/core/function_ref.h"
#include "../../autograd/core/printable.h"
#include "../../autograd/core/scoped_value.h"
#include "../io/atomic_file.h"
#include "../io/safetensors.h"
#include "../train/ranks.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>
#include <regex>
#include <string>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

namespace fs = std::filesystem;
using Files = std::map<std::int64_t, fs::path>;

constexpr const char* kCheckpoints = "checkpoints";
constexpr const char* kLast = "last";
constexpr const char* kSetAside = "checkpoints/best.safetensors";
constexpr const char* kMetrics = "metrics.jsonl";
constexpr const char* kMetricsSetAside = "checkpoints/metrics.jsonl";
constexpr const char* kReport = "report.html";

// Only the first rank writes.
bool writes() { return rank() == 0; }

// Creates the folder if necessary, and flushes it to disk before anything is written into it.
const fs::path& made(const fs::path& folder) {
  std::error_code error;
  const bool is_new = fs::create_directories(folder, error);
  check<FileError>(!error, printable_path(folder), ": cannot be made: ", error.message());
  if (is_new && folder.has_parent_path()) File(folder.parent_path(), File::Open::folder).flush();
  return folder;
}

void remove_file(const fs::path& file) {
  std::error_code error;
  fs::remove(file, error);
  check<FileError>(!error, printable_path(file), ": cannot be removed: ", error.message());
}

void rename_file(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  check<FileError>(!error, printable_path(to), ": cannot be replaced: ", error.message());
}

// The entries of a folder; none if it does not exist. Failing to list it is an error: it may not be empty.
fs::directory_iterator entries(const fs::path& folder) {
  std::error_code error;
  fs::directory_iterator list(folder, error);
  const bool is_missing = error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
  check<FileError>(!error || is_missing, printable_path(folder), ": cannot be listed: ", error.message());
  return list;
}

// Names that replace_atomically() gives to the temporary files for those of a run.
bool is_temporary_name(const fs::path& path) {
  static const std::regex pattern(
      R"(((model|best|[0-9]+)\.safetensors|config\.json|metrics\.jsonl|report\.html)\.tmp-[0-9a-f]{16})");
  return std::regex_match(path.filename().string(), pattern);
}

// The files STEP.safetensors of a folder.
Files numbered_files(const fs::path& folder) {
  Files files;
  for (const fs::directory_entry& entry : entries(folder)) {
    const std::string name = entry.path().stem().string();
    std::int64_t step = -1;
    const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), step);
    if (failure == std::errc() && end == name.data() + name.size() && entry.path().extension() == ".safetensors")
      files[step] = entry.path();
  }
  return files;
}

fs::path numbered(const fs::path& folder, std::int64_t step) {
  return folder / (std::to_string(step) + ".safetensors");
}

void keep_last(const fs::path& folder, std::size_t count) {
  Files files = numbered_files(folder);
  while (files.size() > count) remove_file(files.extract(files.begin()).mapped());
}

void remove_all_but(const fs::path& folder, std::int64_t step) {
  for (const auto& [other, file] : numbered_files(folder))
    if (other != step) remove_file(file);
}

// Files of later steps would be taken for this run's. What is no file, such as a folder of that name, is set aside.
void remove_after(const fs::path& folder, std::int64_t step) {
  for (const auto& [other, file] : numbered_files(folder)) {
    if (other <= step) continue;
    std::error_code error;
    if (!fs::is_directory(fs::symlink_status(file, error))) {
      remove_file(file);
      continue;
    }
    fs::rename(file, file.string() + ".set-aside", error);
    check<FileError>(!error, printable_path(file), ": cannot be set aside: ", error.message());
  }
}

}  // namespace

RunFolder::RunFolder(fs::path folder) : folder_(std::move(folder)) {
  if (!writes()) return;
  lock_.emplace(made(folder_));
  for (const fs::path& place : {folder_, folder_ / kCheckpoints, folder_ / kLast})
    for (const fs::directory_entry& entry : entries(place))
      if (is_temporary_name(entry.path())) remove_file(entry.path());
}

bool RunFolder::is_used() const {
  return writes() && (fs::exists(model()) || !numbered_files(folder_ / kCheckpoints).empty());
}

void RunFolder::check_own() const {
  if (!writes()) return;
  for (const char* part : {kCheckpoints, kLast})
    check<FileError>(!fs::is_symlink(folder_ / part) || numbered_files(folder_ / part).empty(),
                     printable_path(folder_ / part),
                     ": is a link to a folder with checkpoints, which a new training would remove; remove the link");
}

void RunFolder::check_locked() const {
  if (lock_) lock_->check_still(folder_);
}

void RunFolder::begin_change() {
  if (!deferred_) finish();
  check_locked();
}

void RunFolder::clear() {
  if (!writes()) return;
  begin_change();
  for (const char* part : {kCheckpoints, kLast, kReport}) {
    std::error_code error;
    fs::remove_all(folder_ / part, error);
    check<FileError>(!error, printable_path(folder_ / part), ": cannot be removed: ", error.message());
  }
}

void RunFolder::begin() {
  if (!writes()) return;
  begin_change();
  const bool is_of_earlier_run = fs::exists(folder_ / kMetrics) && !numbered_files(folder_ / kCheckpoints).empty();
  if (is_of_earlier_run && !fs::exists(folder_ / kMetricsSetAside))
    rename_file(folder_ / kMetrics, folder_ / kMetricsSetAside);
}

void RunFolder::copy_from(const fs::path& other) {
  clear();
  for (const fs::directory_entry& entry : fs::directory_iterator(other))  // no mixture of two runs' files
    if (entry.is_directory()) fs::remove_all(folder_ / entry.path().filename());
  fs::copy(other, folder_, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
}

void RunFolder::go_on_from(std::int64_t step) {
  if (!writes()) return;
  begin_change();
  is_new_ = false;
  remove_after(folder_ / kCheckpoints, step);
  remove_after(folder_ / kLast, step);
  if (fs::exists(folder_ / kSetAside)) rename_file(folder_ / kSetAside, model());
  if (fs::exists(folder_ / kMetricsSetAside)) rename_file(folder_ / kMetricsSetAside, folder_ / kMetrics);
}

// Replaces files and then calls `then`, both perhaps later.
void RunFolder::replace(FunctionRef<void()> write, std::function<void()> then) {
  if (deferred_) {
    deferred_->push_back(replace_atomically_later(write));
    deferred_->push_back(std::move(then));
  } else {
    write();
    then();
  }
}

void RunFolder::save_checkpoint(std::int64_t step, std::size_t keep, Write write) {
  if (!writes()) return write(numbered(folder_, step));
  begin_change();
  const fs::path folder = made(folder_ / kCheckpoints);
  const auto remove_older = [this, folder, step, keep] {
    if (is_new_) {  // the files of an earlier run must not be taken for this one's
      remove_all_but(folder, step);
      remove_all_but(folder_ / kLast, step);
      remove_file(folder_ / kSetAside);
      remove_file(folder_ / kMetricsSetAside);
      remove_file(folder_ / kReport);
      is_new_ = false;
    }
    keep_last(folder, keep);
  };
  replace([&] { write(numbered(folder, step)); }, remove_older);
}

void RunFolder::save_last(std::int64_t step, std::size_t keep, Write write) {
  if (!writes()) return;
  begin_change();
  const fs::path folder = made(folder_ / kLast);
  const auto remove_older = [this, folder, keep] {
    if (!is_new_) keep_last(folder, keep + 1);  // the previous checkpoint needs the models saved until then
  };
  replace([&] { write(numbered(folder, step)); }, remove_older);
}

std::vector<fs::path> RunFolder::last_models(std::size_t keep) const {
  std::vector<fs::path> files;
  for (const auto& [step, file] : numbered_files(folder_ / kLast)) files.push_back(file);
  files.erase(files.begin(), files.end() - static_cast<std::ptrdiff_t>(std::min(keep, files.size())));
  return files;
}

void RunFolder::save_model(Write write, bool is_at_the_end) {
  if (!writes()) return;
  begin_change();
  const fs::path aside = folder_ / kSetAside;
  if (is_at_the_end && fs::exists(model()) && !fs::exists(aside)) copy_atomically(model(), aside);
  replace([&] { write(model()); }, [] {});
}

void RunFolder::save_in_background(FunctionRef<void()> saves) {
  finish();
  std::vector<std::function<void()>> rest;
  {
    const ScopedValue deferring(deferred_, is_new_ ? nullptr : &rest);
    saves();
  }
  if (rest.empty()) return;
  background_ = std::async(std::launch::async, [rest = std::move(rest)] {
    for (const std::function<void()>& each : rest) each();
  });
}

void RunFolder::finish() {
  if (background_.valid()) background_.get();
}

void RunFolder::check_background() {
  const bool is_over =
      background_.valid() && background_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  if (is_over) background_.get();
}

std::optional<fs::path> newest_checkpoint(const fs::path& folder, FunctionRef<void(const Error&)> passed_over) {
  const Files files = numbered_files(folder / kCheckpoints);
  for (auto at = files.rbegin(); at != files.rend(); ++at) {
    try {
      SafeTensorsFile(at->second).verify();
      return at->second;
    } catch (const FormatError& e) {
      passed_over(e);
    } catch (const FileError& e) {
      passed_over(e);
    }
  }
  return std::nullopt;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
