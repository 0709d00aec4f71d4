// Finds the trained model stories260k, if available: in the folder that SEPPO_STORIES260K names, or in shared/data
// next to the checkout.
#pragma once

#include "support/paths.h"

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>

namespace test {

inline std::optional<std::filesystem::path> stories260k() {
  namespace fs = std::filesystem;
  const char* const named = std::getenv("SEPPO_STORIES260K");
  const fs::path root = source_folder();
  for (const fs::path& folder : {fs::path(named ? named : ""), root.parent_path() / "shared/data/stories260k",
                                 root.parent_path().parent_path() / "shared/data/stories260k"})
    if (!folder.empty() && fs::exists(folder / "model.safetensors")) return folder;
  std::cout << "skipped: a model trained by others; set SEPPO_STORIES260K to the folder of stories260k\n";
  return {};
}

}  // namespace test
