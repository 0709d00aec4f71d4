// Lines of JSON, each flushed at once: a run that is killed has written all lines up to its last checkpoint.
#include "app/metrics_log.h"

#include "app/paths.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/printable.h>
#include <seppo/nn/io/atomic_file.h>
#include <seppo/nn/io/json.h>
#include <seppo/nn/train/ranks.h>

#include <algorithm>
#include <sstream>

namespace examples {

using nlohmann::json;

namespace {

// A failed read is an error: taking it for the end of the file would lose the lines after it.
std::string content_of(const std::filesystem::path& path) {
  std::string content;
  if (!std::filesystem::exists(path)) return content;
  seppo::File file(path, seppo::File::Open::reading);
  char piece[1 << 14];
  while (const std::size_t n = file.read_some(piece, sizeof piece)) content.append(piece, n);
  return content;
}

}  // namespace

MetricsLog::MetricsLog(const std::filesystem::path& file, std::int64_t step) : name_(seppo::printable_path(file)) {
  std::string kept;
  if (step > 0) {
    std::istringstream before(content_of(file));
    for (std::string text; std::getline(before, text);) try {
        json line = seppo::parse_json(text, name_);
        if (line.at("step").get<std::int64_t>() > step) continue;
        kept += text + "\n";
        earlier_.push_back(std::move(line));
      } catch (const std::exception&) {  // a line that was only partly written when the run was killed
        continue;
      }
  }
  if (seppo::rank() == 0) write_file_atomically(file, kept);
  stream_.open(seppo::rank() == 0 ? file : "/dev/null", std::ios::app);
  check();
}

double MetricsLog::earlier_seconds() const {
  for (auto line = earlier_.rbegin(); line != earlier_.rend(); ++line)
    if (line->contains("seconds") && (*line)["seconds"].is_number()) return (*line)["seconds"].get<double>();
  return 0;
}

void MetricsLog::write(const json& line) {
  if (std::ranges::find(earlier_, line) == earlier_.end()) stream_ << line << std::endl;
}

void MetricsLog::close() {
  stream_.close();
  check();
}

void MetricsLog::check() const { seppo::check<seppo::FileError>(stream_.good(), name_, ": cannot write"); }

}  // namespace examples
