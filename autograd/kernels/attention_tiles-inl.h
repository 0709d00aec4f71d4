// The tiles of scores that attention over long sequences computes; included once per instruction set, like simd-inl.h.
#if defined(SEPPO_ATTENTION_TILES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SEPPO_ATTENTION_TILES_INL_H
#undef SEPPO_ATTENTION_TILES_INL_H
#else
#define SEPPO_ATTENTION_TILES_INL_H
#endif

#include "../blas/multiply.h"
#include "../core/simd-inl.h"
#include "dropout-inl.h"
#include "kernels.h"

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace seppo {
inline namespace SEPPO_ABI {
namespace kernels::HWY_NAMESPACE {
namespace {

// Scores are computed in square tiles: large ones, for the products. Two of them stay in an L2 of 1 MiB.
constexpr std::size_t kSide = 2 * DropoutFactors::kGroup;

struct Tile {
  std::size_t query, queries, key, keys;
  bool is_first = false;  // of its queries

  static constexpr std::size_t kGap = 16;  // between rows: strides of powers of two map to few cache sets
  std::size_t stride() const { return keys + kGap; }
  MatrixOut out(real* scores) const { return {scores, queries, keys, stride()}; }
  MatrixView view(const real* scores) const { return {scores, queries, keys, stride()}; }

  // The rows of the head's queries, keys or values that belong to the tile.
  MatrixView rows_of_queries(const MatrixView& x) const { return x.block(query, 0, queries, x.cols); }
  MatrixView rows_of_keys(const MatrixView& x) const { return x.block(key, 0, keys, x.cols); }
};

std::size_t tile_elements(const AttentionHead& h) {
  return std::min(kSide, h.queries) * (std::min(kSide, h.keys) + Tile::kGap);
}

// The number of keys, from the tile's first, that query i of the head may attend to without an explicit mask.
std::size_t attended(const AttentionHead& h, const Tile& t, std::size_t i) {
  const std::size_t limit = h.attended(i);
  return std::min(t.keys, limit > t.key ? limit - t.key : 0);
}

// The number of keys, from the tile's first, that query i of the head no longer sees through its window.
std::size_t passed(const AttentionHead& h, const Tile& t, std::size_t i) {
  const std::size_t first = h.first_attended(i);
  return std::min(t.keys, first > t.key ? first - t.key : 0);
}

// The tiles of a strip of queries, of the keys that any of them sees through its window. They begin where a group of
// dropout factors does.
template <class F>
void for_each_tile_in_window(const AttentionHead& h, std::size_t query, std::size_t queries, const F& f) {
  constexpr std::size_t kAlign = DropoutFactors::kGroup;
  const std::size_t first = h.first_attended(query) / kAlign * kAlign;
  const std::size_t end = h.attended(query + queries - 1);
  for (std::size_t key = first; key < end; key += kSide)
    f(Tile{query, queries, key, std::min(kSide, end - key), /*is_first=*/key == first});
}

// Calls f(tile) for the tiles of a block of queries, those of a query in the order of their keys. Tiles cut by the
// causal diagonal are processed in strips of 32 queries with only the keys that they may attend to.
template <class F>
void for_each_tile(const AttentionHead& h, std::size_t query, std::size_t queries, const F& f) {
  constexpr std::size_t kStrip = 32;
  if (h.window > 0) {
    for (std::size_t i = 0; i < queries; i += kStrip)
      for_each_tile_in_window(h, query + i, std::min(kStrip, queries - i), f);
    return;
  }
  for (std::size_t key = 0; key < h.valid_keys; key += kSide) {
    const Tile t{query, queries, key, std::min(kSide, h.valid_keys - key), /*is_first=*/key == 0};
    if (attended(h, t, query) == t.keys) {
      f(t);
      continue;
    }
    for (std::size_t i = 0; i < queries; i += kStrip) {
      Tile strip = t;
      strip.query += i;
      strip.queries = std::min(kStrip, queries - i);
      strip.keys = attended(h, t, strip.query + strip.queries - 1);
      if (strip.keys > 0) f(strip);
    }
  }
}

// The elements begin .. end - 1 of a tile's row that causality and the window leave to its query.
struct Seen {
  std::size_t begin, end;
};

Seen seen(const AttentionHead& h, const Tile& t, std::size_t i) { return {passed(h, t, i), attended(h, t, i)}; }

}  // namespace
}  // namespace kernels::HWY_NAMESPACE
}  // namespace SEPPO_ABI
}  // namespace seppo
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
