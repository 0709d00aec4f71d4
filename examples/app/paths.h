// What an option may name: an input is there and a file, an output can be written. All is known before any work is
// done; every UsageError names the option and the path.
#pragma once

#include <filesystem>
#include <string>

namespace examples {

// Throws UsageError if there is no such file, or if it is a folder, pipe, socket or device.
void check_input(const std::string& option, const std::filesystem::path& path);

// Throws UsageError for a pipe, socket or device: it could hang, never end, or be replaced by a file.
void check_not_special(const std::string& option, const std::filesystem::path& path);

// Throws UsageError unless a file can be written there, by replacing what is there.
void check_output(const std::string& option, const std::filesystem::path& path);

// Makes the folder, if it is not there. Throws UsageError unless files can be written in it.
void prepare_folder(const std::string& option, const std::filesystem::path& folder);

// Replaces a small file by this text, whole or not at all. Throws seppo::FileError.
void write_file_atomically(const std::filesystem::path& path, const std::string& content);

}  // namespace examples
