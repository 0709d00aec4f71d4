// Sequences of token ids from text files.
//
//   const Ragged texts = read_ragged("ids.txt");  // "3 1 4\n1 5\n": tokens 3 1 4 1 5, offsets 0 3 5
//
// From arrays of NumPy, a matrix of rows of one length or tokens and offsets:
//
//   Ragged::of_length(128, NpyFile("rows.npy").values<int>())
//   Ragged::of_offsets(NpyFile("tokens.npy").values<int>(), NpyFile("offsets.npy").values<int>())
#pragma once

#include "../data/ragged.h"

#include <filesystem>
#include <limits>

namespace seppo {
inline namespace SEPPO_ABI {

// A sequence for each line, which has ids of 0..vocabulary-1 with blanks between them; that of an empty line is empty.
// Throws FormatError naming file, line and column for what is no such id, and as TextReader does (text_file.h).
Ragged read_ragged(const std::filesystem::path& path, int vocabulary = std::numeric_limits<int>::max());

}  // namespace SEPPO_ABI
}  // namespace seppo
