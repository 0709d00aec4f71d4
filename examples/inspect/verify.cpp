// Checks one file after another, and prints a line for each.
#include "inspect/verify.h"

#include "app/paths.h"
#include "app/printable.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/printable.h>
#include <seppo/nn/io/safetensors.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <vector>

namespace inspect {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Finding {
  std::string file = {};
  bool has_digest = false;
  std::size_t tensors = 0;
  std::uint64_t bytes = 0;
  std::vector<std::string> damage = {};  // or why it cannot be read
};

Finding examined(const fs::path& path) {
  Finding finding{.file = std::string(seppo::printable_path(path))};
  try {
    const seppo::SafeTensorsFile file(path);
    finding.has_digest = file.digest().has_value();
    finding.tensors = file.tensors().size();
    finding.bytes = file.size();
    finding.damage = file.damage();
  } catch (const seppo::FormatError& e) {
    const std::string text = e.what();
    const std::string beginning = finding.file + ": ";
    finding.damage.push_back(text.starts_with(beginning) ? text.substr(beginning.size()) : text);
  }
  return finding;
}

void print(const Finding& finding) {
  for (const std::string& part : finding.damage) std::cerr << fmt::format("{}: damaged: {}\n", finding.file, part);
  if (!finding.damage.empty()) return;
  const char* const state = finding.has_digest ? "whole, as it was written" : "complete, but without a digest to check";
  std::cout << fmt::format("{}: {}: {} tensors, {} bytes\n", finding.file, state, finding.tensors, finding.bytes);
}

json to_json(const Finding& finding) {
  return {{"file", finding.file},       {"whole", finding.damage.empty()}, {"digest", finding.has_digest},
          {"tensors", finding.tensors}, {"bytes", finding.bytes},          {"damage", finding.damage}};
}

// The file itself; of a folder, the safetensors files in it and in its folders. Throws UsageError if there are none.
std::vector<fs::path> weight_files(const fs::path& path) {
  if (!fs::is_directory(path)) {
    examples::check_input("", path);
    return {path};
  }
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(path))
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  std::ranges::sort(files);
  if (files.empty())
    throw examples::UsageError(fmt::format("'{}' has no safetensors file", seppo::printable_path(path)));
  return files;
}

}  // namespace

int verify(const examples::Arguments& arguments) {
  bool as_json = false;
  examples::Arguments words;
  examples::CommandLine line("seppo verify FILE... [options]",
                             "Says whether safetensors files are as they were written, and names the damaged tensors. "
                             "A folder stands for all such files in it.");
  line("json", as_json, "print a JSON object for each file");
  line.words(&words);
  if (!line.parse(arguments)) return 0;
  if (words.empty()) throw examples::UsageError("verify takes files, or folders of them");
  std::vector<fs::path> files;
  for (const std::string& word : words) {
    const std::vector<fs::path> some = weight_files(word);
    files.insert(files.end(), some.begin(), some.end());
  }
  bool all_whole = true;
  for (const fs::path& file : files) {
    const Finding finding = examined(file);
    all_whole = all_whole && finding.damage.empty();
    if (as_json)
      std::cout << to_json(finding).dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace) << "\n";
    else
      print(finding);
  }
  return all_whole ? 0 : 1;
}

}  // namespace inspect
