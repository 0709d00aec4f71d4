// What tests of run folders share: a folder without links in its path, and a writer of small files.
#pragma once

#include "support/program.h"

#include <seppo/nn/io/atomic_file.h>

#include <filesystem>
#include <string>

namespace test {

// Recorded file operations (recorded_files.h) have the paths of its files.
struct PlainFolder : Folder {
  explicit PlainFolder(const std::string& name) : Folder(name) { path = std::filesystem::canonical(path); }
};

// For RunFolder's functions that save.
inline auto writing(const std::string& text) {
  return [=](const std::filesystem::path& file) {
    seppo::replace_atomically(file, [&](seppo::File& f) { f.write(text.data(), text.size()); });
  };
}

}  // namespace test
