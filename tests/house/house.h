// What the tests of the house share: the files of the repository, and their lines.
#pragma once

#include "support/paths.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace house {

namespace fs = std::filesystem;

inline const fs::path kRoot(test::source_folder());

inline std::string read(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    lines.push_back(text.substr(begin, end - begin));
  return lines;
}

// Files below these folders, with one of these extensions.
inline std::vector<fs::path> files_of(const std::vector<std::string>& folders,
                                      const std::vector<std::string>& extensions) {
  std::vector<fs::path> files;
  for (const std::string& folder : folders)
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder))
      if (entry.is_regular_file() &&
          std::ranges::find(extensions, entry.path().extension().string()) != extensions.end())
        files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

inline std::vector<fs::path> documents() {
  std::vector<fs::path> files = files_of({"docs"}, {".md"});
  for (const char* name : {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"})
    files.push_back(kRoot / name);
  return files;
}

}  // namespace house
