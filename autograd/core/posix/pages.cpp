// Pages by mmap.
#include "../pages.h"

#include <sys/mman.h>
#include <unistd.h>
#include <new>

namespace seppo {
inline namespace SEPPO_ABI {

void* map_pages(std::size_t bytes) {
  void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  return pages;
}

void unmap_pages(void* pages, std::size_t bytes) { munmap(pages, bytes); }

void prefer_huge_pages([[maybe_unused]] void* pages, [[maybe_unused]] std::size_t bytes) {
#ifdef MADV_HUGEPAGE
  madvise(pages, bytes, MADV_HUGEPAGE);
#endif
}

std::size_t page_size() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

void release_pages(void* pages, std::size_t bytes) {
#ifdef __linux__
  ::madvise(pages, bytes, MADV_DONTNEED);
#else  // where that is a hint, which leaves the values
  ::mmap(pages, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
#endif
}

}  // namespace SEPPO_ABI
}  // namespace seppo
