#include <seppo/autograd/arena.h>

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
#else
#define ASAN_POISON_MEMORY_REGION(address, size) (static_cast<void>(address), static_cast<void>(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) (static_cast<void>(address), static_cast<void>(size))
#endif

namespace seppo::inline SEPPO_ABI {
namespace {

// Under AddressSanitizer, bytes between two pieces that no one may touch.
#ifdef SEPPO_ASAN
constexpr std::size_t kRedZone = Arena::kAlignment;
#else
constexpr std::size_t kRedZone = 0;
#endif

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
  if (units == 16) units = 8, ++shift;
  return {shift * 8 + static_cast<int>(units), (units << shift) * Arena::kAlignment};
}

}  // namespace

Arena::~Arena() { free_blocks(); }

void* Arena::allocate(std::size_t bytes) {
  const std::size_t taken = std::max<std::size_t>(1, (bytes + kAlignment - 1) / kAlignment) * kAlignment + kRedZone;
  if (blocks_.empty() || used_ + taken > blocks_[block_].size()) grow(taken);
  std::byte* piece = blocks_[block_].data() + used_;
  used_ += taken;
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
  Piece*& head = recycled_[static_cast<std::size_t>(c.index)];
  ASAN_UNPOISON_MEMORY_REGION(memory, sizeof(Piece));
  head = new (memory) Piece{head};
  ASAN_POISON_MEMORY_REGION(memory, c.bytes);
}

void Arena::rewind(Mark mark) {
  recycled_.fill(nullptr);
  for (std::size_t b = mark.block; b < blocks_.size(); ++b) {
    const std::size_t keep = b == mark.block ? mark.used : 0;
    ASAN_POISON_MEMORY_REGION(blocks_[b].data() + keep, blocks_[b].size() - keep);
  }
  block_ = mark.block;
  used_ = mark.used;
}

void Arena::reset() {
  rewind({0, 0});
  if (blocks_.size() > 1) {
    const std::size_t total = capacity();
    free_blocks();
    add_block(total);
  }
}

std::size_t Arena::capacity() const {
  std::size_t total = 0;
  for (const Memory& block : blocks_) total += block.size();
  return total;
}

std::size_t Arena::used() const {
  std::size_t total = used_;
  for (std::size_t b = 0; b < block_; ++b) total += blocks_[b].size();
  return total;
}

void Arena::grow(std::size_t bytes) {
  if (!blocks_.empty())
    while (block_ + 1 < blocks_.size()) {
      ++block_;
      used_ = 0;
      if (bytes <= blocks_[block_].size()) return;
    }
  add_block(std::max({bytes, kFirstBlock, capacity() / 2}));
  block_ = blocks_.size() - 1;
  used_ = 0;
}

void Arena::add_block(std::size_t bytes) {
  blocks_.emplace_back(bytes);
  ASAN_POISON_MEMORY_REGION(blocks_.back().data(), bytes);
}

void Arena::free_blocks() {
  for (const Memory& block : blocks_) ASAN_UNPOISON_MEMORY_REGION(block.data(), block.size());
  blocks_.clear();
}

}  // namespace seppo::inline SEPPO_ABI
