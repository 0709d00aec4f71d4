// What a small network was at some of its evaluations, for the slider of the report page.
#pragma once

#include <seppo/nn/parameters.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace examples {

constexpr const char* kSnapshotsFile = "report-snapshots.js";  // beside report.html

// At most kMostKept of the evaluations, evenly spread over those so far: when there are more, every second one goes.
class Snapshots {
 public:
  static constexpr std::size_t kMostKept = 20;
  static constexpr std::size_t kMostValues = 100'000;  // of a network: 11 MB of text for all snapshots

  // The parameters at this step; nothing if there are more than kMostValues.
  void add(std::int64_t step, const seppo::Parameters& parameters);
  bool empty() const { return kept_.empty(); }
  std::vector<std::int64_t> steps() const;

  // A script that gives them to the page (page/history.js): snapshots([{"step": 100, "values": "..."}, ...]). The
  // values are those of all entries, as float32, in base64. Replaces the file atomically. Throws seppo::FileError.
  void write(const std::filesystem::path& file) const;

 private:
  struct Snapshot {
    std::int64_t step;
    std::string values;
  };
  std::vector<Snapshot> kept_;
  std::size_t seen_ = 0, stride_ = 1;  // of the evaluations, each stride_-th is kept
};

}  // namespace examples
