// Pages of memory from the system: posix/pages.cpp or windows/pages.cpp, of which CMake compiles one.
#pragma once

#include "real.h"

#include <cstddef>

namespace seppo {
inline namespace SEPPO_ABI {

// Pages of zeros. Throws std::bad_alloc.
void* map_pages(std::size_t bytes);
void unmap_pages(void* pages, std::size_t bytes);
// A hint: failing is fine.
void prefer_huge_pages(void* pages, std::size_t bytes);

std::size_t page_size();
// Gives whole pages back; what is read from them is zero then.
void release_pages(void* pages, std::size_t bytes);

}  // namespace SEPPO_ABI
}  // namespace seppo
