// Storing, reordering and reading cached keys and values. A block holds `capacity` rows for each sequence.
#include "kv_cache.h"

#include <algorithm>
#include <numeric>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// Huge pages: a step reads a little from every page that earlier steps wrote.
Memory cache_memory(std::size_t elements) { return Memory(elements * sizeof(real), /*huge=*/true); }

std::vector<int> multiples(std::size_t count, int factor) {
  std::vector<int> values(count + 1);
  for (std::size_t i = 0; i <= count; ++i) values[i] = static_cast<int>(i) * factor;
  return values;
}

// The parents of each source's sequences must be sequences of that source.
void check_select(std::span<const int> parents, Offsets rows, Offsets old) {
  check(rows.size() == old.size() && rows[0] == 0 && rows.back() == static_cast<int>(parents.size()),
        "decode: ", parents.size(), " rows selected for ", old.size() - 1, " sources, but their offsets are ",
        rows.size(), " and end with ", rows.empty() ? 0 : rows.back());
  for (std::size_t s = 0; s + 1 < old.size(); ++s) {
    check(rows[s] <= rows[s + 1] && rows[s + 1] <= rows.back(), "decode: offsets decrease at source ", s);
    for (int i = rows[s]; i < rows[s + 1]; ++i) {
      const int parent = parents[static_cast<std::size_t>(i)];
      check<IndexError>(parent >= old[s] && parent < old[s + 1], "decode: row ", i, " of source ", s,
                        " cannot continue row ", parent, ", whose source is another");
    }
  }
}

// With a cache, a sequence's keys are all its positions so far; valid lengths count them from the first one.
void check_cached_mask(const Mask& mask, std::span<const int> positions) {
  check<ArgumentError>(mask.is_causal && mask.pairs.empty(),
                       "attention: with a cache the mask must be causal, with or without valid lengths");
  if (mask.lengths.empty()) return;
  check(mask.lengths.size() == positions.size(), "attention: mask has ", mask.lengths.size(), " valid lengths for ",
        positions.size(), " cached sequences");
  for (std::size_t s = 0; s < positions.size(); ++s)
    check<IndexError>(mask.lengths[s] >= 0 && mask.lengths[s] <= positions[s], "attention: valid length ",
                      mask.lengths[s], " of cached sequence ", s, " is not in 0..", positions[s]);
}

std::size_t size_of_cache(const char* what, int size) {
  check<ArgumentError>(size > 0, "cache: ", what, " ", size, " is not positive");
  return static_cast<std::size_t>(size);
}

}  // namespace

KeyValueCache::KeyValueCache(std::size_t layers, std::size_t sequences, int capacity, int kv_width)
    : capacity_(size_of_cache("capacity", capacity)),
      width_(2 * size_of_cache("kv_width", kv_width)),
      lengths_(sequences),
      begins_(multiples(sequences, capacity)),
      grown_(sequences),
      source_rows_(multiples(sequences, 1)),
      memory_(layers),
      memory_rows_(layers) {
  for (std::size_t l = 0; l < layers; ++l) self_.push_back(cache_memory(sequences * capacity_ * width_));
}

std::span<const int> KeyValueCache::extend(Offsets rows) {
  check<StateError>(!tape().records(), "decode: a cache needs Mode::eval; gradients would not reach cached positions");
  check(rows.size() == lengths_.size() + 1, "decode: ", rows.size() - 1, " sequences for a cache of ", lengths_.size());
  int* const first = tape().allocate<int>(lengths_.size());
  is_step_ = true;
  for (std::size_t s = 0; s < lengths_.size(); ++s) {
    const int count = rows[s + 1] - rows[s];
    check<StateError>(static_cast<std::size_t>(lengths_[s] + count) <= capacity_, "decode: ", count,
                      " positions more than the ", lengths_[s], " of sequence ", s, " do not fit the cache of ",
                      capacity_);
    first[s] = lengths_[s];
    is_step_ = is_step_ && count == 1;
  }
  for (std::size_t s = 0; s < lengths_.size(); ++s) {
    grown_[s] = rows[s + 1] - rows[s];
    lengths_[s] += grown_[s];
  }
  return {first, lengths_.size()};
}

void LayerCache::check_layer() const {
  check<IndexError>(layer < cache->self_.size(), "decode: layer ", layer, " of a cache of ", cache->self_.size(),
                    " layers");
}

KeysValues LayerCache::append(const KeysValues& fresh) const {
  const std::vector<int>& lengths = cache->lengths_;
  check_layer();
  check(fresh.rows.size() == lengths.size() + 1, "decode: ", fresh.rows.size() - 1, " sequences for a cache of ",
        lengths.size());
  for (std::size_t s = 0; s < lengths.size(); ++s)
    check<StateError>(fresh.rows[s + 1] - fresh.rows[s] == cache->grown_[s], "decode: sequence ", s, " has ",
                      fresh.rows[s + 1] - fresh.rows[s], " new positions, but extend() was told of ", cache->grown_[s]);
  check_cached_mask(fresh.mask, lengths);
  const std::size_t width = cache->width_;
  const int half = static_cast<int>(width / 2);
  check(fresh.k.count == half && fresh.v.count == half, "decode: keys of ", fresh.k.count, " and values of ",
        fresh.v.count, " columns for a cache of kv_width ", half);
  real* const block = cache->self_[layer].as<real>();
  const auto at = [&](std::size_t s, int n) {
    return block + (s * cache->capacity_ + static_cast<std::size_t>(n)) * width;
  };
  const auto copy = [&](const Columns& from, int row, real* to) {
    const real* const first = from.matrix.data() + static_cast<std::size_t>(row) * from.matrix.cols() + from.first;
    std::copy_n(first, from.count, to);
  };
  for (std::size_t s = 0; s < lengths.size(); ++s)
    for (int row = fresh.rows[s], n = lengths[s] - (fresh.rows[s + 1] - row); n < lengths[s]; ++row, ++n) {
      copy(fresh.k, row, at(s, n));
      copy(fresh.v, row, at(s, n) + half);
    }
  const auto kept = [&](const Tensor& all, Offsets rows, const Mask& mask) {
    return KeysValues{Columns(all, 0, half), Columns(all, half, half), rows, mask};
  };
  const int columns = static_cast<int>(width);
  if (cache->is_step_)
    return kept(tape().create_external({cache->begins_.back(), columns}, block), cache->begins_,
                Mask::valid_lengths(fresh.mask.lengths.empty() ? lengths : fresh.mask.lengths));
  // A causal mask aligns the last query with the last key, so the free rows between sequences are left out.
  int* const offsets = tape().allocate<int>(lengths.size() + 1);
  offsets[0] = 0;
  std::partial_sum(lengths.begin(), lengths.end(), offsets + 1);
  const Tensor packed = tape().create({offsets[lengths.size()], columns});
  for (std::size_t s = 0; s < lengths.size(); ++s)
    std::copy(at(s, 0), at(s, lengths[s]), packed.data() + static_cast<std::size_t>(offsets[s]) * width);
  return kept(packed, {offsets, lengths.size() + 1}, fresh.mask);
}

Tensor LayerCache::memory(FunctionRef<Tensor()> compute) const {
  check_layer();
  Memory& kept = cache->memory_[layer];
  if (!kept.data()) {
    const Tensor kv = compute();
    check(kv.cols() == cache->width_, "decode: a memory of ", kv.cols(), " columns for a cache of kv_width ",
          cache->width_ / 2);
    kept = cache_memory(kv.numel());
    cache->memory_rows_[layer] = kv.size(0);
    std::copy_n(kv.data(), kv.numel(), kept.as<real>());
  }
  return tape().create_external({cache->memory_rows_[layer], static_cast<int>(cache->width_)}, kept.as<real>());
}

Offsets LayerCache::source_rows(Offsets rows) const {
  const std::vector<int>& sources = cache->source_rows_;
  check(rows.size() == static_cast<std::size_t>(sources.back()) + 1, "decode: ", rows.size() - 1,
        " sequences, but the sources have ", sources.back(), "; select() was not told which");
  int* const begins = tape().allocate<int>(sources.size());
  for (std::size_t s = 0; s < sources.size(); ++s) begins[s] = rows[static_cast<std::size_t>(sources[s])];
  return {begins, sources.size()};
}

std::size_t KeyValueCache::checked(std::size_t sequence) const {
  check<IndexError>(sequence < lengths_.size(), "decode: sequence ", sequence, " of a cache of ", lengths_.size());
  return sequence;
}

void KeyValueCache::select(std::span<const int> parents, Offsets source_rows) {
  check_select(parents, source_rows, source_rows_);
  select(parents);
  source_rows_.assign(source_rows.begin(), source_rows.end());
}

void KeyValueCache::select(std::span<const int> parents) {
  bool changes = parents.size() != lengths_.size();
  for (std::size_t i = 0; i < parents.size(); ++i)
    changes = checked(static_cast<std::size_t>(parents[i])) != i || changes;
  if (!changes) return;
  source_rows_ = {0};                            // unknown until the other select() is called
  const std::size_t block = capacity_ * width_;  // elements of a sequence
  std::vector<int> lengths;
  for (const int parent : parents) lengths.push_back(lengths_[static_cast<std::size_t>(parent)]);
  for (Memory& kv : self_) {
    if (chosen_.size() < parents.size() * block * sizeof(real)) chosen_ = cache_memory(parents.size() * block);
    for (std::size_t i = 0; i < parents.size(); ++i)
      std::copy_n(kv.as<real>() + static_cast<std::size_t>(parents[i]) * block,
                  static_cast<std::size_t>(lengths[i]) * width_, chosen_.as<real>() + i * block);
    std::swap(kv, chosen_);
  }
  lengths_ = std::move(lengths);
  grown_.assign(lengths_.size(), 0);
  begins_ = multiples(parents.size(), static_cast<int>(capacity_));
}

}  // namespace SEPPO_ABI
}  // namespace seppo
