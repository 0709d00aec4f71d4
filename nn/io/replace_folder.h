// Folders that are replaced whole or not at all.
//
//   replace_folder("model", [&](const std::filesystem::path& made) { save_pretrained(made, config, parameters); },
//                  is_model_file);
#pragma once

#include "../../autograd/core/real.h"

#include <filesystem>
#include <functional>
#include <string>

namespace seppo {
inline namespace SEPPO_ABI {

// Lets `write` fill a new folder, FOLDER.partial, which then changes its name, so that `folder` is the complete old one
// or the complete new one, even if the process is killed; an earlier FOLDER.partial is removed. The old folder is
// FOLDER.partial.old for a moment, where the next call finds what a killed process has not yet moved.
// Files of the old folder are kept unless `is_replaced` is true for their names or the new folder has them. If `write`
// throws, the old folder stays as it was. A symbolic link to a folder stays. Throws FileError.
void replace_folder(const std::filesystem::path& folder, const std::function<void(const std::filesystem::path&)>& write,
                    const std::function<bool(const std::string&)>& is_replaced);

}  // namespace SEPPO_ABI
}  // namespace seppo
