// Checks of the paths that options name: an input must be an existing file, an output must be writable. All are checked
// before any work is done; every UsageError names the option and the path. The option is empty for a word of the
// command line.
#pragma once

#include <filesystem>
#include <string>

namespace examples {

// Throws UsageError if there is no such file, or if it is a folder, pipe, socket or device.
void check_input(const std::string& option, const std::filesystem::path& path);

// Throws UsageError for a pipe, socket or device: it could hang, never end, or be replaced by a file.
void check_not_special(const std::string& option, const std::filesystem::path& path);

// Throws UsageError unless a file can be written there, replacing any existing one.
void check_output(const std::string& option, const std::filesystem::path& path);

// Throws UsageError if that output is the same file as this input, which would be lost.
void check_distinct(const std::string& option, const std::filesystem::path& output, const std::filesystem::path& input);

// Creates the folder, if it does not exist. Throws UsageError unless files can be written in it.
void prepare_folder(const std::string& option, const std::filesystem::path& folder);

}  // namespace examples
