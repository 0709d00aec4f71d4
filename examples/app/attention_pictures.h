// Attention weights to look at: in characters, as a picture, and as numbers for Python.
#pragma once

#include <seppo/models/transformer_layers.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace examples {

class CommandLine;

// Text that may stand within XML and HTML.
std::string escaped(const std::string& text);

// What stands beside the rows of a map (queries: who looks) and above its columns (keys: what is looked at).
struct AttentionLabels {
  std::vector<std::string> queries, keys;
};

// One head of a map of one sequence, a row for each query, from ' ' for 0 to '@' for 1.
std::string attention_text(const seppo::AttentionMap& map, int head, const AttentionLabels& labels);

// Every head of every map, one after another.
using LabelMaker = std::function<AttentionLabels(const seppo::AttentionMap&)>;
std::string attention_text(const seppo::AttentionMaps& maps, const LabelMaker& labels);

// All heads of a map, as SVG; the weights show on hovering.
std::string attention_svg(const seppo::AttentionMap& map, const AttentionLabels& labels);

// An array in NumPy's format (.npy, version 1.0). Throws seppo::FileError.
void write_npy(const std::filesystem::path& path, const seppo::Shape& shape, std::span<const float> values);

// Writes MAP.svg and MAP.npy [heads, queries, keys] for each map, such as encoder.0.self_attn.svg, into a folder
// that is made if need be.
void save_attention(const std::filesystem::path& folder, const seppo::AttentionMaps& maps, const LabelMaker& labels);

// --attention and --attention-out of the `predict` commands.
struct AttentionOutput {
  bool as_text = false;
  std::filesystem::path folder;

  void add_to(CommandLine& line);
  bool is_wanted() const { return as_text || !folder.empty(); }
  void show(const seppo::AttentionMaps& maps, const LabelMaker& labels) const;
};

}  // namespace examples
