// A bump allocator with free lists by size class, poisoned for AddressSanitizer.
#include "arena.h"

#include <algorithm>
#include <bit>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#define SEPPO_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SEPPO_ASAN
#endif
#endif
#ifdef SEPPO_ASAN
#include <sanitizer/asan_interface.h>
constexpr bool kPoisons = true;
#else
constexpr bool kPoisons = false;
#define ASAN_POISON_MEMORY_REGION(address, size) (static_cast<void>(address), static_cast<void>(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) (static_cast<void>(address), static_cast<void>(size))
#endif

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// Poisoned bytes between pieces, under AddressSanitizer.
constexpr std::size_t kRedZone = kPoisons ? Arena::kAlignment : 0;

// Size classes in units of a cache line: 1..15 exactly, then eight to each power of two.
struct SizeClass {
  int index;
  std::size_t bytes;
};

SizeClass size_class(std::size_t bytes) {
  std::size_t units = std::max<std::size_t>(1, (bytes + Arena::kAlignment - 1) / Arena::kAlignment);
  if (units < 16) return {static_cast<int>(units), units * Arena::kAlignment};
  int shift = static_cast<int>(std::bit_width(units)) - 4;
  units = (units + (std::size_t{1} << shift) - 1) >> shift;
  if (units == 16) {
    units = 8;
    ++shift;
  }
  return {shift * 8 + static_cast<int>(units), (units << shift) * Arena::kAlignment};
}

}  // namespace

void* Arena::allocate(std::size_t bytes) {
  const std::size_t taken = std::max<std::size_t>(1, (bytes + kAlignment - 1) / kAlignment) * kAlignment + kRedZone;
  if (blocks_.empty() || blocks_[block_].used + taken > blocks_[block_].memory.size()) grow(taken);
  std::byte* const piece = blocks_[block_].top();
  blocks_[block_].used += taken;
  ASAN_UNPOISON_MEMORY_REGION(piece, bytes);
  return piece;
}

void* Arena::allocate_recycled(std::size_t bytes) {
  const SizeClass c = size_class(bytes);
  Piece*& head = recycled_[static_cast<std::size_t>(c.index)];
  void* piece = head;
  if (piece) {
    ASAN_UNPOISON_MEMORY_REGION(piece, sizeof(Piece));
    head = head->next;
  } else {
    piece = allocate(c.bytes);
  }
  ASAN_POISON_MEMORY_REGION(piece, c.bytes);
  ASAN_UNPOISON_MEMORY_REGION(piece, bytes);
  return piece;
}

void Arena::recycle(void* memory, std::size_t bytes) {
  const SizeClass c = size_class(bytes);
  const std::size_t taken = c.bytes + kRedZone;
  Block& block = blocks_[block_];
  if (block.used >= taken && block.top() - taken == memory) {  // the newest piece
    note_most_used();
    block.used -= taken;
    ASAN_POISON_MEMORY_REGION(memory, c.bytes);
    return;
  }
  Piece*& head = recycled_[static_cast<std::size_t>(c.index)];
  ASAN_UNPOISON_MEMORY_REGION(memory, sizeof(Piece));
  head = new (memory) Piece{head};
  ASAN_POISON_MEMORY_REGION(memory, c.bytes);
}

void Arena::rewind(Mark mark) {
  note_most_used();
  recycled_.fill(nullptr);
  for (std::size_t b = mark.block; b < blocks_.size(); ++b) {
    Block& block = blocks_[b];
    block.used = b == mark.block ? mark.used : 0;
    ASAN_POISON_MEMORY_REGION(block.top(), block.memory.size() - block.used);
  }
  block_ = mark.block;
}

void Arena::reset() {
  rewind({0, 0});
  most_used_ = 0;
  if (blocks_.size() > 1) {
    const std::size_t total = capacity();
    free_blocks();
    add_block(total);
  }
}

void Arena::reserve(std::size_t bytes) {
  if (used() > 0 || capacity() >= bytes) return;
  free_blocks();
  block_ = 0;
  add_block(bytes);
}

std::size_t Arena::capacity() const {
  std::size_t total = 0;
  for (const Block& block : blocks_) total += block.memory.size();
  return total;
}

std::size_t Arena::used() const {
  std::size_t total = 0;
  for (const Block& block : blocks_) total += block.used;
  return total;
}

std::size_t Arena::most_used() const { return std::max(most_used_, used()); }

void Arena::note_most_used() { most_used_ = most_used(); }

void Arena::grow(std::size_t bytes) {
  while (block_ + 1 < blocks_.size())
    if (bytes <= blocks_[++block_].memory.size()) return;
  add_block(std::max({bytes, kFirstBlock, capacity() / 2}));
  block_ = blocks_.size() - 1;
}

void Arena::add_block(std::size_t bytes) {
  blocks_.push_back({Memory(bytes)});
  ASAN_POISON_MEMORY_REGION(blocks_.back().memory.data(), bytes);
}

void Arena::free_blocks() {
  for (const Block& block : blocks_) ASAN_UNPOISON_MEMORY_REGION(block.memory.data(), block.memory.size());
  blocks_.clear();
}

}  // namespace SEPPO_ABI
}  // namespace seppo
