// Pages by VirtualAlloc. Huge pages need a privilege there, which programs do not have.
#include "../pages.h"

#define NOMINMAX
#include <windows.h>
#include <new>

namespace seppo {
inline namespace SEPPO_ABI {

void* map_pages(std::size_t bytes) {
  void* const pages = VirtualAlloc(nullptr, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
  if (!pages) throw std::bad_alloc();
  return pages;
}

void unmap_pages(void* pages, std::size_t) { VirtualFree(pages, 0, MEM_RELEASE); }

void prefer_huge_pages(void*, std::size_t) {}

std::size_t page_size() {
  SYSTEM_INFO info;
  GetSystemInfo(&info);
  return info.dwPageSize;
}

void release_pages(void* pages, std::size_t bytes) {
  VirtualFree(pages, bytes, MEM_DECOMMIT);
  VirtualAlloc(pages, bytes, MEM_COMMIT, PAGE_READWRITE);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
