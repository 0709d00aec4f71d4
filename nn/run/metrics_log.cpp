// Lines of JSON, each flushed at once: a run that is killed has written all lines up to its last checkpoint.
#include "metrics_log.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "../io/file.h"
#include "../io/json.h"
#include "../io/text_file.h"
#include "../train/ranks.h"
#include "run_state.h"

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

namespace {

using nlohmann::json;

// A failed read is an error: taking it for the end of the file would lose the lines after it.
std::string content_of(const std::filesystem::path& path) {
  std::string content;
  if (!std::filesystem::exists(path)) return content;
  File file(path, File::Open::reading);
  char piece[1 << 14];
  while (const std::size_t n = file.read_some(piece, sizeof piece)) content.append(piece, n);
  return content;
}

}  // namespace

MetricsLog::MetricsLog(const std::filesystem::path& file, std::int64_t step) : name_(printable_path(file)) {
  const std::string kept = step > 0 ? read_until(file, step) : "";
  if (rank() == 0) write_text(file, kept);
  stream_.open(rank() == 0 ? file : "/dev/null", std::ios::app);
  check();
}

std::string MetricsLog::read_until(const std::filesystem::path& file, std::int64_t step) {
  std::string kept;
  std::istringstream lines(content_of(file));
  for (std::string text; std::getline(lines, text);) {
    json line;
    try {
      line = parse_json(text, name_);
    } catch (const FormatError&) {  // a line that was only partly written when the run was killed
      continue;
    }
    const json at = line.is_object() ? line.value("step", json()) : json();
    const bool is_earlier = at.is_number_unsigned() && at.get<std::uint64_t>() <= static_cast<std::uint64_t>(step);
    if (!is_earlier) continue;
    kept += text + "\n";
    earlier_.push_back(std::move(line));
  }
  return kept;
}

double MetricsLog::earlier_seconds() const {
  for (auto line = earlier_.rbegin(); line != earlier_.rend(); ++line)
    if (line->contains("seconds") && (*line)["seconds"].is_number()) return (*line)["seconds"].get<double>();
  return 0;
}

void MetricsLog::write(const json& line) {
  if (std::ranges::find(earlier_, line) == earlier_.end()) stream_ << dumped(line) << std::endl;
}

void MetricsLog::close() {
  stream_.close();
  check();
}

void MetricsLog::check() const { seppo::check<FileError>(stream_.good(), name_, ": cannot write"); }

}  // namespace SEPPO_ABI
}  // namespace seppo
