// Keeps the parameters of some evaluations, and writes them as a script.
#include "app/snapshots.h"

#include "app/page_network.h"

#include <seppo/nn/io/text_file.h>

#include <fmt/format.h>

namespace examples {

void Snapshots::add(std::int64_t step, const seppo::Parameters& parameters) {
  if (parameters.values().size() > kMostValues) return;
  if (seen_++ % stride_ != 0) return;
  kept_.push_back({step, floats_in_base64(values_of_entries(parameters))});
  if (kept_.size() <= kMostKept) return;
  std::vector<Snapshot> fewer;
  for (std::size_t i = 0; i < kept_.size(); i += 2) fewer.push_back(std::move(kept_[i]));
  kept_ = std::move(fewer);
  stride_ *= 2;
}

std::vector<std::int64_t> Snapshots::steps() const {
  std::vector<std::int64_t> steps;
  for (const Snapshot& snapshot : kept_) steps.push_back(snapshot.step);
  return steps;
}

void Snapshots::write(const std::filesystem::path& file) const {
  std::string text = "snapshots([";
  for (const Snapshot& snapshot : kept_)
    text += fmt::format("{}\n{{\"step\": {}, \"values\": \"{}\"}}", &snapshot == &kept_[0] ? "" : ",", snapshot.step,
                        snapshot.values);
  seppo::write_text(file, text + "\n]);\n");
}

}  // namespace examples
